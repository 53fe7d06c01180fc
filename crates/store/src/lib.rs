//! Tables on disk: manifest, row groups, loader, sampler, readers.
