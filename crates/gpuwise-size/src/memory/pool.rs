//! vLLM's pool for models whose layers keep different things: groups of equally many layers draw
//! pages of one size.

use super::cache::{CacheGroup, CacheShape};
use crate::setup::Setup;
use gpuwise_domain::model::Window;

/// The rules of a release by which layers of several kinds share a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pool {
    /// Kinds whose layers are fewer than this factor apart form groups of the larger number, with
    /// padding; else groups have as many layers as the rarest kind.
    pub padding: f64,
    /// Whether capacity is reported as the requests of the longest context that fit, times that
    /// context (else as blocks shared out over groups).
    pub by_requests: bool,
    /// Pages of a state: the running one and one for each drafted token.
    pub state_pages: f64,
    /// Tokens of a step, which a window keeps beside itself.
    pub batched_tokens: f64,
}

/// How a cache lies in pages.
#[derive(Debug, Clone, Copy)]
struct Pages {
    /// Bytes of a page in one layer.
    page: f64,
    /// Tokens of the smallest block.
    block: f64,
    /// Layers of a group.
    group_layers: f64,
    /// Groups of all kinds.
    groups: f64,
}

impl Pool {
    /// The rules of the setup's release.
    pub(super) fn of(setup: &Setup<'_>) -> Self {
        let drafted = setup.draft.map_or(0.0, |draft| f64::from(draft.tokens));
        Self {
            padding: if setup.engine.at_least([0, 17, 0]) {
                1.5
            } else {
                1.25
            },
            by_requests: setup.engine.at_least([0, 21, 0]),
            state_pages: 1.0 + drafted,
            batched_tokens: setup.settings.batched_tokens as f64,
        }
    }

    fn pages(&self, shape: &CacheShape) -> Option<Pages> {
        let widest = shape
            .groups
            .iter()
            .map(|g| g.token_bytes)
            .fold(0.0, f64::max);
        let state = shape
            .groups
            .iter()
            .map(|g| g.state_bytes)
            .fold(0.0, f64::max);
        if widest <= 0.0 {
            return None;
        }
        // With states the attention block grows until its page holds a state.
        let block = (libm::ceil(state / widest / shape.block) * shape.block).max(shape.block);
        let fewest = shape
            .groups
            .iter()
            .map(|g| g.layers)
            .fold(f64::INFINITY, f64::min);
        let most = shape.groups.iter().map(|g| g.layers).fold(0.0, f64::max);
        let group_layers = if most < fewest * self.padding {
            most
        } else {
            fewest
        }
        .max(1.0);
        let groups = shape
            .groups
            .iter()
            .map(|g| libm::ceil(g.layers / group_layers))
            .sum();
        Some(Pages {
            page: block * widest,
            block,
            group_layers,
            groups,
        })
    }

    /// Blocks that one request of so many tokens holds at most.
    fn request_blocks(&self, shape: &CacheShape, pages: Pages, tokens: f64, reserve: f64) -> f64 {
        let of = |group: &CacheGroup| {
            let repeats = libm::ceil(group.layers / pages.group_layers);
            if group.token_bytes <= 0.0 {
                return repeats * self.state_pages;
            }
            // Narrower layers hold more tokens in a page of the common size.
            let block = pages.page / group.token_bytes;
            let full = libm::ceil(tokens / block);
            repeats
                * match group.window {
                    Window::Full => full,
                    Window::Sliding(window) => {
                        let kept = (window.0 as f64 - 1.0 + reserve).min(tokens);
                        (libm::ceil(kept / block) + 1.0).min(full.max(1.0) + 1.0)
                    }
                    Window::Chunked(chunk) => {
                        libm::ceil((chunk.0 as f64 + reserve).min(tokens) / block)
                    }
                }
        };
        shape.groups.iter().map(of).sum()
    }

    /// Tokens as the engine reports them.
    pub(super) fn reported_tokens(&self, shape: &CacheShape, bytes: f64) -> f64 {
        let Some(pages) = self.pages(shape) else {
            return 0.0;
        };
        let blocks = libm::floor(bytes / (pages.page * pages.group_layers));
        if self.by_requests {
            let context = shape.max_context.max(1.0);
            let each = self.request_blocks(
                shape,
                pages,
                context / shape.context_ranks,
                self.batched_tokens,
            );
            return libm::floor(blocks / each.max(1.0) * context / shape.context_ranks);
        }
        libm::floor(blocks / pages.groups) * pages.block
    }

    /// Requests of so many tokens that fit.
    pub(super) fn sequences(&self, shape: &CacheShape, bytes: f64, tokens: f64) -> f64 {
        let Some(pages) = self.pages(shape) else {
            return 0.0;
        };
        let blocks = libm::floor(bytes / (pages.page * pages.group_layers));
        // While decoding, a window keeps little beside itself.
        blocks
            / self
                .request_blocks(shape, pages, tokens / shape.context_ranks, 0.0)
                .max(1.0)
    }
}
