//! Tests of expressions through the public API of `berth-core`.

mod evaluation;
mod evaluation_bounds;
