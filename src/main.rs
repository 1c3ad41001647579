//! The binary: picks a face and maps its outcome to an exit code.

fn main() {}
