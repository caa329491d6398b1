//! Code that needs no actor: the reading of texts from outside.

mod reading;
mod settings;
mod traces;
