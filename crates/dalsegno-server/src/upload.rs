//! A body that may have files: JSON, or `multipart/form-data` with the JSON in the part `run` and each file in a part `file`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::http::header::CONTENT_TYPE;
use dalsegno_access::Access;
use dalsegno_runtime::NewAttachment;
use futures::stream;
use multer::{Field, Multipart};
use serde::de::DeserializeOwned;

use crate::body::{self, Held, Json, Room};
use crate::guard::Client;
use crate::params;
use crate::problem::{Code, Problem};
use crate::shared::Shared;
use crate::shares::Shares;

/// Most bytes of a body with files.
const BODY: u64 = 32 << 20;
/// The longest that one may take to arrive.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of all bodies with files that are on their way or worked on at a time, and those of a tenant.
const ROOM: u64 = 4 * BODY;
const ROOM_OF_TENANT: u64 = ROOM / 2;
/// Most files of one body.
const FILES: usize = 16;
/// Longest name of a file, in bytes.
const NAME: usize = 255;
/// Longest media type, in bytes.
const MEDIA_TYPE: usize = 127;

const HELP: &str =
    "send the start as JSON in the part `run`, and each file in a part `file` with its name and media type";

/// The room for bodies with files. Only bytes that have arrived take some.
pub(crate) struct Uploads {
    all: Room,
    tenants: Shares<Room>,
}

/// The room that a body with files takes until its files are in the journal.
#[derive(Default)]
pub(crate) struct Uploading {
    _of_all: Held,
    _of_tenant: Held,
    // As long as a body of it is there, the room is the same for all.
    _tenant: Option<Arc<Room>>,
}

impl Uploads {
    pub(crate) fn new() -> Self {
        Self { all: Room::new(ROOM), tenants: Shares::default() }
    }

    /// Reads a body whole.
    async fn gather(&self, access: &Access, body: Body) -> Result<(Vec<u8>, Uploading), Problem> {
        let tenant = self.tenants.of(access, || Room::new(ROOM_OF_TENANT));
        let (mut of_all, mut of_tenant) = (Held::default(), Held::default());
        let bytes = body::collect_with(body, BODY, PATIENCE, |bytes| {
            // The tenant's own first: who has used it up takes nothing from the others.
            if !tenant.take(bytes, &mut of_tenant) {
                let detail = format!(
                    "starts of this tenant with {} MiB of files are on their way, which is the maximum",
                    ROOM_OF_TENANT >> 20
                );
                let help = "wait for an answer before you send another";
                return Err(Problem::new(Code::TooMany, detail, help).retry_after(2));
            }
            self.all.take(bytes, &mut of_all).then_some(()).ok_or_else(body::full)
        });
        let bytes = bytes.await?;
        Ok((bytes, Uploading { _of_all: of_all, _of_tenant: of_tenant, _tenant: Some(tenant) }))
    }
}

/// A body of a known form, with the files that came with it.
pub(crate) struct WithFiles<T> {
    pub(crate) body: T,
    pub(crate) files: Vec<NewAttachment>,
    pub(crate) uploading: Uploading,
}

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for WithFiles<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let kind = params::header(request.headers(), CONTENT_TYPE.as_str())?.unwrap_or_default().to_owned();
        if body::essence(kind.to_ascii_lowercase().as_bytes()) != b"multipart/form-data" {
            let Json(body) = Json::from_request(request, shared).await?;
            return Ok(Self { body, files: Vec::new(), uploading: Uploading::default() });
        }
        let boundary = multer::parse_boundary(&kind)
            .map_err(|_| Problem::parameter("content-type", "has no good `boundary`", HELP))?;
        let (mut parts, body) = request.into_parts();
        let Client(access) = Client::from_request_parts(&mut parts, shared).await?;
        let (bytes, uploading) = shared.uploads.gather(&access, body).await?;
        let (body, files) = read(bytes, boundary, shared.settings.body).await?;
        Ok(Self { body: body::object(&body)?, files, uploading })
    }
}

/// The JSON of a form and its files.
async fn read(bytes: Vec<u8>, boundary: String, most: u64) -> Result<(Bytes, Vec<NewAttachment>), Problem> {
    let bytes = stream::iter([Ok::<_, Infallible>(Bytes::from(bytes))]);
    let mut form = Multipart::new(bytes, boundary);
    let (mut run, mut files) = (None, Vec::new());
    while let Some(field) = form.next_field().await.map_err(|error| unreadable(&error))? {
        match field.name() {
            Some("run") if run.is_none() => {
                let json = field.bytes().await.map_err(|error| unreadable(&error))?;
                if json.len() as u64 > most {
                    let detail = format!("the part `run` has more than {most} bytes");
                    let help = "send less, or raise `body` in `[serve]` of dalsegno.toml";
                    return Err(Problem::new(Code::TooLarge, detail, help));
                }
                run = Some(json);
            }
            Some("run") => return Err(refused("has the part `run` twice")),
            Some("file") if files.len() < FILES => files.push(file(field).await?),
            Some("file") => return Err(refused(&format!("has more than {FILES} files"))),
            _ => return Err(refused("has a part that is neither `run` nor `file`")),
        }
    }
    let run = run.ok_or_else(|| refused("has no part `run`"))?;
    Ok((run, files))
}

async fn file(field: Field<'_>) -> Result<NewAttachment, Problem> {
    let number = field.index();
    let wrong =
        |what: &str| Problem::new(Code::BadRequest, format!("part {number} of the body {what}"), HELP);
    let name = field.file_name().map(str::to_owned).ok_or_else(|| wrong("is a file without a name"))?;
    let is_name = !name.is_empty()
        && name.len() <= NAME
        && !name.contains(|sign: char| sign.is_control() || matches!(sign, '/' | '\\'));
    if !is_name {
        let what =
            format!("has a name that is none: 1 to {NAME} bytes without slashes and control characters are");
        return Err(wrong(&what));
    }
    let sent = field.content_type().map(|kind| kind.essence_str().to_ascii_lowercase());
    let media_type = sent
        .or_else(|| NewAttachment::media_type_of(&name).map(str::to_owned))
        .filter(|kind| kind.len() <= MEDIA_TYPE)
        .ok_or_else(|| wrong("is a file without a media type such as `image/png`"))?;
    let bytes = field.bytes().await.map_err(|error| unreadable(&error))?.into();
    Ok(NewAttachment { name, media_type, bytes })
}

fn refused(what: &str) -> Problem {
    let detail = format!("the body {what}");
    Problem::new(Code::BadRequest, detail.clone(), HELP).at("", detail)
}

fn unreadable(error: &multer::Error) -> Problem {
    let detail = format!("the body is no complete `multipart/form-data`: {error}");
    Problem::new(Code::BadRequest, detail.clone(), HELP).at("", detail)
}
