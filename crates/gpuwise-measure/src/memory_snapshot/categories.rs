//! Memory by what it is used for.

use gpuwise_domain::profile::memory_snapshot::{CategoryTimeline, MemoryCategory};
use gpuwise_domain::profile::sources::CategoryFigures;

/// Moments that are kept: more are not seen.
const MOMENTS: usize = 300;

/// Figures of a timeline by category. What was there before the recording counts from its start.
pub fn category_figures(timeline: &CategoryTimeline) -> CategoryFigures {
    let mut live = [0_i64; MemoryCategory::ALL.len()];
    let mut most = live;
    let mut total = 0_i64;
    let mut figures = CategoryFigures {
        event_count: timeline.events.len() as u64,
        peak_live: i64::MIN,
        ..CategoryFigures::default()
    };
    let mut at_peak = live;
    let stretch = timeline.events.len().div_ceil(MOMENTS).max(1);
    let (mut fullest, mut dated_count) = (i64::MIN, 0_usize);
    let dated = || timeline.events.iter().filter_map(|event| event.at_ns);
    for event in &timeline.events {
        let place = MemoryCategory::ALL
            .iter()
            .position(|c| *c == event.category);
        let place = place.unwrap_or(MemoryCategory::ALL.len() - 1);
        total = total.saturating_add(event.bytes);
        if let (Some(live), Some(most)) = (live.get_mut(place), most.get_mut(place)) {
            *live = live.saturating_add(event.bytes);
            *most = (*most).max(*live);
        }
        if event.at_ns.is_none() {
            figures.start_live = figures.start_live.saturating_add(event.bytes);
        }
        // The fullest moment of each stretch is kept; what was there before is its beginning.
        if let Some(at) = event.at_ns {
            match figures.moments.last_mut() {
                Some(last) if dated_count % stretch != 0 => {
                    if total > fullest {
                        *last = (at, live);
                        fullest = total;
                    }
                }
                _ => {
                    figures.moments.push((at, live));
                    fullest = total;
                }
            }
            dated_count += 1;
        }
        if total > figures.peak_live {
            figures.peak_live = total;
            figures.peak_at_ns = event.at_ns;
            at_peak = live;
        }
    }
    figures.peak_live = figures.peak_live.max(0);
    figures.end_live = total;
    figures.time_span_ns = match (dated().min(), dated().max()) {
        (Some(first), Some(last)) => last.saturating_sub(first),
        _ => 0,
    };
    let named = |bytes: [i64; MemoryCategory::ALL.len()]| {
        let all = MemoryCategory::ALL.into_iter().zip(bytes);
        all.filter(|(_, bytes)| *bytes != 0).collect::<Vec<_>>()
    };
    figures.categories_at_peak = named(at_peak);
    figures
        .categories_at_peak
        .sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    figures.peak_by_category = named(most);
    figures
}
