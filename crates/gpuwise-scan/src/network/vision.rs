//! Networks that look at images and volumes.

use super::{Reader, encoder::labels};
use crate::config::{ConfigError, fields::Fields};
use gpuwise_domain::network::{
    ResidualNetwork, Retinanet, Shape, TransformerSize, VisionHead, VisionTransformer, VolumeUnet,
};

pub(super) fn reader(class: &str) -> Option<Reader> {
    Some(match class {
        "vit" | "ViTModel" | "ViTForImageClassification" => transformer,
        "resnet" | "ResNetModel" | "ResNetForImageClassification" => residual,
        "retinanet" | "RetinaNet" => retinanet,
        "unet3d" | "Unet3D" | "UNet3D" => volume,
        _ => return None,
    })
}

fn transformer(root: Fields<'_>, class: &str) -> Result<Shape, ConfigError> {
    let hidden = root.need(&["hidden_size"], "width of the model")?;
    let heads = root.need(&["num_attention_heads"], "attention")?;
    // A type alone, and classes with a name each, stand for the classifier.
    let head = if class == "ViTModel" {
        VisionHead::Pooler
    } else {
        VisionHead::Classes(labels(root)?)
    };
    Ok(Shape::Vision(VisionTransformer {
        size: TransformerSize {
            layers: root.layers(&["num_hidden_layers"])?,
            hidden,
            heads,
            width: root.need(&["intermediate_size"], "width of the feed-forward")?,
        },
        patch: root.need(&["patch_size"], "side of a patch")?,
        image: root.need(&["image_size"], "side of an image")?,
        channels: root.count(&["num_channels"])?.unwrap_or(3),
        head,
    }))
}

/// Side of the images of `ImageNet`, for which residual networks are trained where they do not say.
const IMAGENET_SIDE: u64 = 224;

fn stages(root: Fields<'_>) -> Result<ResidualNetwork, ConfigError> {
    let missing = |field| ConfigError::Missing {
        field,
        purpose: "depth and width of the stages",
    };
    let depths = root.counts("depths")?.ok_or(missing("depths"))?;
    let widths = root
        .counts("hidden_sizes")?
        .ok_or(missing("hidden_sizes"))?;
    if depths.len() != widths.len() || depths.is_empty() {
        return Err(ConfigError::Contradiction(format!(
            "`depths` has {} entries and `hidden_sizes` {}: expected one each for every stage",
            depths.len(),
            widths.len()
        )));
    }
    if depths.len() > 16 || depths.iter().any(|blocks| *blocks > 1000) || widths.contains(&0) {
        return Err(ConfigError::Contradiction(
            "there must be at most 16 stages, `depths` at most 1000, `hidden_sizes` above 0".into(),
        ));
    }
    let bottleneck = root.text("layer_type")?.unwrap_or("bottleneck") == "bottleneck";
    let groups = root.count(&["groups"])?.unwrap_or(1);
    let reduction = match root.count(&["reduction"])? {
        Some(stated) => stated,
        None if bottleneck => 4,
        None => 1,
    };
    if bottleneck
        && widths
            .iter()
            .any(|width| width % reduction != 0 || (width / reduction) % groups != 0)
    {
        return Err(ConfigError::Contradiction(format!(
            "`hidden_sizes` must be multiples of {reduction} × {groups} groups"
        )));
    }
    Ok(ResidualNetwork {
        channels: root.count(&["num_channels"])?.unwrap_or(3),
        stem: root.count(&["embedding_size"])?.unwrap_or(64),
        stages: depths.into_iter().zip(widths).collect(),
        reduction,
        bottleneck,
        halve_first: root.is("downsample_in_first_stage")?,
        halve_early: root.is("downsample_in_bottleneck")?,
        groups,
        classes: 0,
        image: root.count(&["image_size"])?.unwrap_or(IMAGENET_SIDE),
    })
}

fn residual(root: Fields<'_>, class: &str) -> Result<Shape, ConfigError> {
    let shape = stages(root)?;
    let classes = if class == "ResNetModel" {
        0
    } else {
        labels(root)?
    };
    Ok(Shape::Residual(ResidualNetwork { classes, ..shape }))
}

fn retinanet(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    let backbone = root.object("backbone_config")?.unwrap_or(root);
    let backbone = stages(backbone)?;
    if backbone.stages.len() < 3 {
        return Err(ConfigError::Contradiction(
            "the pyramid reads the last three stages; the backbone has fewer".into(),
        ));
    }
    Ok(Shape::Retinanet(Retinanet {
        backbone,
        pyramid: root.count(&["pyramid_channels"])?.unwrap_or(256),
        convolutions: root.count(&["head_convolutions"])?.unwrap_or(4),
        classes: root.need(&["num_classes"], "width of the classification head")?,
        anchors: root.need(&["num_anchors"], "width of the heads")?,
    }))
}

fn volume(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    let filters = root.counts("filters")?.ok_or(ConfigError::Missing {
        field: "filters",
        purpose: "width of the levels",
    })?;
    if filters.is_empty() || filters.len() > 16 || filters.contains(&0) {
        return Err(ConfigError::Contradiction(
            "`filters` must be 1 to 16 numbers above 0".into(),
        ));
    }
    let window = root.need(&["window"], "size of the input")?;
    let divisor = 1 << filters.len();
    if window % divisor != 0 {
        return Err(ConfigError::Contradiction(format!(
            "`window` {window} is no multiple of {divisor}, which {} levels and the bottom need",
            filters.len()
        )));
    }
    Ok(Shape::VolumeUnet(VolumeUnet {
        channels: root.count(&["in_channels"])?.unwrap_or(1),
        filters,
        classes: root.need(&["n_class"], "width of the output")?,
        window,
    }))
}
