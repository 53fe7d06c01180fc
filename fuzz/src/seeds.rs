//! Writes the corpora that the fuzz targets start from: `corpus/<target>/<number>`.

use std::fs;
use std::path::Path;

use pelton_fuzz::readers::{chunk_seeds, table_seeds, zone_seeds};

fn main() -> std::io::Result<()> {
    for (target, seeds) in [("chunk", chunk_seeds()), ("zone_maps", zone_seeds()), ("table", table_seeds())] {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&directory)?;
        for (index, seed) in seeds.iter().enumerate() {
            fs::write(directory.join(format!("seed-{index:03}")), seed)?;
        }
        println!("{target}: {} seeds", seeds.len());
    }
    Ok(())
}
