//! The clocks of the sandbox: virtual and real.
