//! Tables on disk: manifest, row groups, sampler, writer and readers.
