//! What needs no actor: texts from outside, and what becomes of them.

mod reading;
mod settings;
mod traces;
