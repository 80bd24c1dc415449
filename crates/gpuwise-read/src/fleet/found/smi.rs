//! `nvidia-smi -q -x`: GPUs, MIG, the fabric that a rack is joined by.

use super::{FoundGpu, FoundNode, FoundSlice};
use crate::fleet::text::Found;
use quick_xml::{Reader, events::Event};

/// Deeper than any driver nests.
const DEEPEST: usize = 16;
/// GPUs, or instances of one, at most.
const MOST: usize = 1024;

pub(super) fn read(name: &str, text: &str) -> Found<FoundNode> {
    let mut reader = Reader::from_str(text);
    let mut path: Vec<String> = Vec::new();
    let mut content = String::new();
    let mut node = FoundNode {
        name: name.into(),
        ..FoundNode::default()
    };
    loop {
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                path.push(start.name().as_ref().to_owned());
                if path.len() > DEEPEST {
                    return Err(format!("elements are nested deeper than {DEEPEST}"));
                }
                content.clear();
                opened(&path, &mut node);
            }
            Ok(Event::Text(piece)) => content.push_str(&piece),
            Ok(Event::End(_)) => {
                leaf(&path, content.trim(), &mut node);
                path.pop();
                content.clear();
            }
            Ok(Event::Eof) => break,
            Ok(_) => {}
            Err(error) => return Err(format!("byte {}: {error}", reader.error_position())),
        }
    }
    if node.gpus.is_empty() {
        return Err("no <gpu> is in it; expected the output of `nvidia-smi -q -x`".into());
    }
    Ok(node)
}

fn opened(path: &[String], node: &mut FoundNode) {
    match (path.len(), path.last().map(String::as_str)) {
        (2, Some("gpu")) if node.gpus.len() < MOST => node.gpus.push(FoundGpu::default()),
        (_, Some("mig_device")) => {
            if let Some(gpu) = node.gpus.last_mut() {
                let slices = gpu.mig.get_or_insert_default();
                if slices.len() < MOST {
                    slices.push(FoundSlice::default());
                }
            }
        }
        _ => {}
    }
}

/// What an element without elements says.
fn leaf(path: &[String], text: &str, node: &mut FoundNode) {
    let (Some(inner), true) = (path.get(2..), !text.is_empty() && text != "N/A") else {
        return;
    };
    let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
    let Some(gpu) = node.gpus.last_mut() else {
        return;
    };
    match inner.as_slice() {
        ["product_name"] => gpu.product = Some(text.into()),
        ["uuid"] => gpu.uuid = Some(text.into()),
        ["fb_memory_usage", "total"] => gpu.memory_mib = mib(text),
        ["mig_mode", "current_mig"] if text == "Enabled" => {
            gpu.mig.get_or_insert_default();
        }
        ["mig_devices", "mig_device", rest @ ..] => {
            let slice = gpu.mig.as_mut().and_then(|slices| slices.last_mut());
            let Some(slice) = slice else { return };
            match rest {
                [.., "multiprocessor_count"] => slice.units = text.parse().ok(),
                ["fb_memory_usage", "total"] => slice.memory_mib = mib(text),
                _ => {}
            }
        }
        // The clique is what a rack's NVLink joins; 0 of no cluster is none.
        ["fabric", "clusterUuid" | "cluster_uuid"]
            if text.bytes().any(|b| b.is_ascii_alphanumeric() && b != b'0') =>
        {
            node.island = Some(text.into());
        }
        ["fabric", "cliqueId" | "clique_id"] => {
            if let Some(island) = &mut node.island
                && !island.contains('.')
            {
                *island = format!("{island}.{text}");
            }
        }
        _ => {}
    }
}

/// `81559 MiB`.
fn mib(text: &str) -> Option<u32> {
    text.strip_suffix("MiB")?.trim().parse().ok()
}
