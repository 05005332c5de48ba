//! Contents as text for a model: text as it is, everything else by its media type and size.

use rmcp::model::{ContentBlock, ResourceContents};

/// A block of a result or of a message.
pub(crate) fn words(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => described("image", Some(&image.mime_type), &image.data),
        ContentBlock::Audio(audio) => described("audio", Some(&audio.mime_type), &audio.data),
        ContentBlock::Resource(resource) => contents(&resource.resource),
        ContentBlock::ResourceLink(link) => format!("[resource {} at {}]", link.name, link.uri),
        _ => "[content of a kind that is not known]".to_owned(),
    }
}

/// What a resource holds.
pub(crate) fn contents(contents: &ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => text.clone(),
        ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
            described("binary", mime_type.as_deref(), blob)
        }
        _ => "[content of a kind that is not known]".to_owned(),
    }
}

/// Where contents come from.
pub(crate) fn uri(contents: &ResourceContents) -> &str {
    match contents {
        ResourceContents::TextResourceContents { uri, .. }
        | ResourceContents::BlobResourceContents { uri, .. } => uri,
        _ => "",
    }
}

fn described(what: &str, media_type: Option<&str>, base64: &str) -> String {
    let media_type = media_type.unwrap_or("application/octet-stream");
    format!("[{what} content, {media_type}, {} bytes]", size(base64))
}

/// How many bytes stand in a base64 text.
pub(crate) fn size(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() - padding) * 3 / 4
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ContentBlock, Resource};

    use super::{size, words};

    #[test]
    fn binary_content_is_described_and_not_written_out() {
        for (base64, bytes) in [("", 0), ("QQ==", 1), ("QUI=", 2), ("QUJD", 3), ("QUJDRA==", 4), ("QUI", 2)] {
            assert_eq!(size(base64), bytes, "{base64}");
        }
        let image = ContentBlock::image("QUJD", "image/png");
        assert_eq!(words(&image), "[image content, image/png, 3 bytes]");
        let link = ContentBlock::ResourceLink(Resource::new("test://a", "a"));
        assert_eq!(words(&link), "[resource a at test://a]");
    }
}
