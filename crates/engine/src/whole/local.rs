//! A file of this machine that COPY or INSERT writes.
//!
//! A regular file gets its name with all others of the statement ([`State`]); a device or a pipe gets the bytes as they come,
//! in order, from a thread of its own, which may wait for a reader for as long as it takes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};
use pelton_error::{Error, Result, ResultExt};
use pelton_limits::NewFile;
use tokio::sync::oneshot;

use super::State;

/// True for what is there and neither a file nor a folder.
pub(super) fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Bytes to a file, part by part.
#[derive(Debug)]
pub(super) struct LocalUpload {
    path: PathBuf,
    target: Target,
    state: Arc<State>,
}

#[derive(Debug)]
enum Target {
    File { new: Option<NewFile>, file: Arc<File>, bytes: u64 },
    Device(mpsc::Sender<Part>),
}

struct Part {
    payload: PutPayload,
    written: oneshot::Sender<io::Result<()>>,
}

impl LocalUpload {
    /// Begins to write `path`, with the folders that it lacks.
    pub(super) async fn begin(path: PathBuf, state: &Arc<State>) -> object_store::Result<Self> {
        let (opened, makes) = (path.clone(), Arc::clone(state));
        let target = blocking(move || match is_device(&opened) {
            true => Ok(Target::Device(device(opened))),
            false => new_file(&opened, &makes),
        });
        match target.await {
            Ok(target) => Ok(Self { path, target, state: Arc::clone(state) }),
            Err(error) => Err(state.fail(error)),
        }
    }
}

fn new_file(path: &Path, state: &State) -> Result<Target> {
    if let Some(folder) = path.parent() {
        state.made(folder.ancestors().take_while(|folder| !folder.exists()));
        fs::create_dir_all(folder).context(|| format!("creating the folder '{}'", folder.display()))?;
    }
    let new = NewFile::create(path)?;
    let file = Arc::new(new.writer()?);
    Ok(Target::File { new: Some(new), file, bytes: 0 })
}

/// A thread that opens `path`, which may wait for a reader, and writes parts until there are no more.
fn device(path: PathBuf) -> mpsc::Sender<Part> {
    let (sender, parts) = mpsc::channel::<Part>();
    std::thread::spawn(move || {
        let mut device = OpenOptions::new().write(true).open(path);
        for part in parts {
            let written = match &mut device {
                Ok(device) => part.payload.iter().try_for_each(|bytes| device.write_all(bytes)),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            // Nobody waits for it where the statement was cancelled.
            let _ = part.written.send(written);
        }
    });
    sender
}

fn write_at(file: &File, payload: &PutPayload, mut offset: u64) -> io::Result<()> {
    for bytes in payload {
        file.write_all_at(bytes, offset)?;
        offset += bytes.len() as u64;
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => Err(Error::io("writing", io::Error::other(ended))),
    }
}

#[async_trait::async_trait]
impl MultipartUpload for LocalUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let (path, state) = (self.path.clone(), Arc::clone(&self.state));
        let doing = move || format!("writing '{}'", path.display());
        let writing: BoxFuture<'static, Result<()>> = match &mut self.target {
            Target::File { file, bytes, .. } => {
                let (file, offset) = (Arc::clone(file), *bytes);
                *bytes += payload.content_length() as u64;
                blocking(move || write_at(&file, &payload, offset).context(doing)).boxed()
            }
            Target::Device(parts) => {
                let (written, result) = oneshot::channel();
                // One that has ended answers nothing.
                let _ = parts.send(Part { payload, written });
                async move {
                    let ended = |_| Err(io::Error::other("the thread that writes has ended"));
                    result.await.unwrap_or_else(ended).context(doing)
                }
                .boxed()
            }
        };
        async move { writing.await.map_err(|error| state.fail(error)) }.boxed()
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        if let Target::File { new, .. } = &mut self.target
            && let Some(new) = new.take()
        {
            self.state.hold_file(new)?;
        }
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        if let Target::File { new, .. } = &mut self.target {
            *new = None;
        }
        Ok(())
    }
}
