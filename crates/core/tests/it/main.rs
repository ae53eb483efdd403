//! Expressions through the public interface of `berth-core`.

mod evaluation;
mod evaluation_bounds;
