//! Tables through their files: what is written is read, whatever happens in between.

mod crash;
mod damage;
mod fixture;
mod forged;
mod full_disk;
mod golden;
mod life;
mod round_trip;
