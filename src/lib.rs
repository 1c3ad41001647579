//! trainwreck explains why a training or serving run died.
