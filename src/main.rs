//! The front door of Dovetail.

fn main() {
    println!("dovetail {}", env!("CARGO_PKG_VERSION"));
}
