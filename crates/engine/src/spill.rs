//! Files of DataFusion's operators that spill: in a [`SpillSpace`], without names, under its limit.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use pelton_limits::SpillSpace;

use crate::error::to_datafusion;

/// Bytes read back at a time: less costs a switch of threads too often.
const READ_BYTES: usize = 128 << 10;

/// Has a session spill to `space`.
pub(crate) fn disk_manager(space: &Arc<SpillSpace>) -> DiskManagerBuilder {
    DiskManagerBuilder::default().with_temp_file_factory(Arc::new(Files(Arc::clone(space))))
}

struct Files(Arc<SpillSpace>);

impl TempFileFactory for Files {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        let file = self.0.file().map_err(to_datafusion)?;
        Ok(Arc::new(OneFile(Arc::new(file))))
    }
}

struct OneFile(Arc<pelton_limits::SpillFile>);

impl SpillFile for OneFile {
    fn size(&self) -> Option<u64> {
        Some(self.0.len())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let start = (Arc::clone(&self.0), 0);
        Ok(Box::pin(futures::stream::try_unfold(start, |(file, offset)| async move {
            // Taken here, where the query is known that it is counted for.
            let mut bytes = vec![0; READ_BYTES];
            let read = tokio::task::spawn_blocking(move || {
                let count = file.read_at(&mut bytes, offset)?;
                bytes.truncate(count);
                Ok((file, bytes))
            });
            let (file, bytes) = match read.await {
                Ok(read) => read.map_err(to_datafusion)?,
                Err(error) => return Err(DataFusionError::ExecutionJoin(Box::new(error))),
            };
            let next = (file, offset + bytes.len() as u64);
            Ok((!bytes.is_empty()).then(|| (Bytes::from(bytes), next)))
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(Arc::clone(&self.0))))
    }
}

struct Writer(Arc<pelton_limits::SpillFile>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
