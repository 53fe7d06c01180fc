//! Runs tests/slt against the engine under several configurations.
