//! `dalsegno schema`: the JSON Schemas of the files that people write, for editors.

use crate::args::SchemaArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::output::Output;

pub(super) fn schema(args: &SchemaArgs, output: &mut Output) -> Result<Exit, Error> {
    output.document(&dalsegno_workspace::schema(args.kind));
    Ok(Exit::Done)
}
