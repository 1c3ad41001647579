//! trainwreck explains why a training or serving run died.

pub mod cli;
pub mod model;
