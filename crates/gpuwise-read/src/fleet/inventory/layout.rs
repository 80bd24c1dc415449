//! Where the GPUs of a node are: NUMA nodes, switches, rails, NVLink.

use super::tables::{Links, Spots};
use crate::fleet::text::Found;

/// Where each of `count` GPUs is; nothing is known where nothing is said.
pub(super) fn spots(field: &str, spots: Option<&Spots>, count: usize) -> Found<Vec<Option<u32>>> {
    match spots {
        None => Ok(vec![None; count]),
        Some(Spots::Evenly(0)) => Err(format!("{field} is 0; leave it out where there are none")),
        Some(Spots::Evenly(over)) => {
            let over = *over as usize;
            Ok((0..count)
                .map(|at| Some((at * over / count.max(1)) as u32))
                .collect())
        }
        Some(Spots::Listed(list)) if list.len() == count => {
            let one = |number: &i64| match u32::try_from(*number) {
                Ok(number) => Ok(Some(number)),
                Err(_) if *number == -1 => Ok(None),
                Err(_) => Err(format!(
                    "{field} lists {number}; expected numbers from 0, or -1 for unknown"
                )),
            };
            list.iter().map(one).collect()
        }
        Some(Spots::Listed(list)) => Err(format!(
            "{field} lists {} numbers, and a node has {count} GPUs; one for each is expected",
            list.len()
        )),
    }
}

/// The group that each of `count` GPUs is in, counted from 0; those alone are in none. `joined` is
/// how many the board's link joins at most.
///
/// Boards whose link joins fewer than 8 are bridged in pairs or fours by hand: nothing is assumed of
/// them. Others are taken as joined through the baseboard.
pub(super) fn groups(
    links: Option<&Links>,
    joined: Option<u32>,
    count: usize,
) -> Found<Vec<Option<usize>>> {
    const BASEBOARD: u32 = 8;
    let by = |size: usize| -> Vec<Option<usize>> {
        (0..count)
            .map(|at| {
                let group = at / size;
                let alone = size < 2 || (count - group * size) < 2;
                (!alone).then_some(group)
            })
            .collect()
    };
    match links {
        None => Ok(match joined {
            Some(most) if most >= BASEBOARD => by(most as usize),
            _ => vec![None; count],
        }),
        Some(Links::All(false)) => Ok(vec![None; count]),
        Some(Links::All(true)) => Ok(by(count.max(1))),
        Some(Links::Groups(size)) if *size >= 2 => Ok(by(*size as usize)),
        Some(Links::Groups(size)) => Err(format!(
            "nvlink is {size}; expected how many GPUs each group has, from 2, or true or false"
        )),
        Some(Links::Listed(groups)) => listed(groups, count),
    }
}

fn listed(groups: &[Vec<u32>], count: usize) -> Found<Vec<Option<usize>>> {
    let mut out: Vec<Option<usize>> = vec![None; count];
    for (group, members) in groups.iter().enumerate() {
        if members.len() < 2 {
            return Err(format!(
                "nvlink group {members:?} joins nothing; a group has at least 2 GPUs"
            ));
        }
        for gpu in members {
            match out.get_mut(*gpu as usize) {
                None => {
                    return Err(format!(
                        "nvlink joins GPU {gpu}, and a node has {count}; they count from 0"
                    ));
                }
                Some(Some(_)) => return Err(format!("nvlink has GPU {gpu} in two groups")),
                Some(free) => *free = Some(group),
            }
        }
    }
    Ok(out)
}
