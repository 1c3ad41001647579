//! trainwreck explains why a training or serving run died.

pub mod cli;
pub mod gpu;
pub mod model;
