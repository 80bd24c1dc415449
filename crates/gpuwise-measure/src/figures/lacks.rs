//! What figures need and a file has not.

use gpuwise_domain::profile::{
    figures::{DeviceFigures, RankFigures},
    timeline::{Format, Lack, Needed, Timeline, WorkClass},
};

/// What a file lacks: what its reader says, and kinds of events of which a trace has none.
pub(crate) fn lacks(timeline: &Timeline) -> Vec<Lack> {
    let mut lacks = timeline.lacks.clone();
    if timeline.work.is_empty() {
        return lacks;
    }
    let mut add = |needed, place: &str| {
        if !lacks.iter().any(|known| known.needed == needed) {
            lacks.push(Lack {
                needed,
                place: place.to_owned(),
            });
        }
    };
    let kineto = timeline.format == Format::Kineto;
    let kernels = timeline.work.iter().any(|w| w.class == WorkClass::Kernel);
    if kineto && !kernels {
        add(Needed::Kernels, "any event of category `kernel`");
    }
    if timeline.calls.is_empty() {
        let place = if kineto {
            "any event of category `cuda_runtime` or `cuda_driver`"
        } else {
            "any call that launches work"
        };
        add(Needed::Calls, place);
    }
    lacks
}

/// Takes away what copies and fills alone would say of a device.
pub(super) fn without_kernels(figures: &mut RankFigures) {
    if figures.lack(Needed::Kernels).is_none() {
        return;
    }
    for device in figures.devices.iter_mut().chain([&mut figures.whole]) {
        *device = DeviceFigures {
            device: device.device,
            name: device.name.take(),
            work_count: device.work_count,
            stream_count: device.stream_count,
            copies: std::mem::take(&mut device.copies),
            ..DeviceFigures::default()
        };
    }
    figures.critical_path = None;
}

/// What is not told for want of something, in a sentence.
pub fn sentence(lack: &Lack) -> String {
    let what = match lack.needed {
        Needed::Kernels => {
            "busy and idle time, communication and all that follows from kernels are not told, and nothing is found"
        }
        Needed::Copies => "copies are not told; busy time counts none",
        Needed::Calls => "which call launched what is not told, nor why the GPU idled",
        Needed::Names => {
            "kernels and calls have no names: communication, tensor cores and kinds of work are not told, and nothing is found"
        }
        Needed::Events => "it is a sample, and what looks idle may be work that it left out",
    };
    format!("the file has not {}: {what}", lack.place)
}
