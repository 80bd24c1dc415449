//! Names come from files that anybody wrote: none may break a terminal, a page or a table.

use crate::fixture;
use gpuwise_domain::{deployment::Sizing, fix::Fix, note::Note};
use gpuwise_view::{Style, escape, escape_markdown, explain, html, memory, plan, svg};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

/// A plan in which everything that has a name is called so.
fn named(name: &str) -> Sizing {
    let mut sizing = fixture::sizing();
    sizing.question.model.name = name.into();
    sizing.notes = vec![Note::Model(name.into())];
    for deployment in &mut sizing.ranked {
        deployment.gpu = name.into();
        deployment.slice = Some(name.into());
        deployment.weights = name.into();
        deployment.cache = name.into();
        deployment.weights_published = false;
        deployment.memory.device = name.into();
        for part in deployment
            .memory
            .weights
            .iter_mut()
            .chain(&mut deployment.memory.overheads)
        {
            part.name = name.into();
            part.formula = name.into();
        }
        if let Some(rental) = &mut deployment.rental {
            rental.instance = name.into();
            rental.provider = name.into();
            rental.region = name.into();
            rental.date = name.into();
        }
        for step in &mut deployment.derivations {
            step.name = name.into();
            step.formula = name.into();
            step.source = name.into();
        }
    }
    for point in &mut sizing.charts.points {
        point.label = name.into();
    }
    for dropped in &mut sizing.dropped {
        dropped.label = name.into();
        dropped.gpu = name.into();
        dropped.shortfall = gpuwise_domain::reason::Reason::Unsupported(name.into());
        dropped.fixes = vec![Fix::OwnEvaluation {
            format: name.into(),
        }];
    }
    sizing
}

/// The character that begins a terminal's control sequences.
const ESCAPE: char = '\u{1b}';

/// Letters, wide letters, marks of HTML, Markdown, CSV and shells, and control characters.
const NAMES: &str = "[ -~À-ÿ一-龥Α-ω–×µ█✓▲✗<>&\"'|`*_\u{1b}\u{7}\n\r\t]{1,80}";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_line_is_wider_than_the_terminal(name in NAMES, width in 40_usize..140) {
        let sizing = named(&name);
        let style = Style { width, colour: false };
        let reports: Vec<_> = sizing.ranked.iter().map(|d| d.memory.clone()).collect();
        let derivations = &sizing.ranked[0].derivations;
        for text in [
            plan::text(&sizing, style),
            plan::text(&Sizing { ranked: Vec::new(), ..sizing.clone() }, style),
            plan::why_not(&sizing, &name, style),
            memory::text(&reports[1], style),
            memory::text(&reports[0], style),
            explain::text(derivations, style),
        ] {
            for line in text.lines() {
                prop_assert!(line.width() <= width, "{} > {width}: {line:?}", line.width());
                prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }

    #[test]
    fn pages_and_pictures_hold_only_their_own_tags(name in NAMES) {
        let plain = html::report(&named("x"), None, "made");
        let page = html::report(&named(&name), None, "made");
        // A name adds no tag. Labels in pictures are left out where there is no room.
        let tags = |text: &str| text.matches('<').count() - 2 * text.matches("<text").count()
            - text.matches("<line").count() - 2 * text.matches("<span class=\"").count();
        prop_assert_eq!(tags(&page), tags(&plain));
        prop_assert!(!page.contains(ESCAPE), "a control character");
        let picture = svg::memory(&named(&name).ranked[0].memory, &name).to_svg();
        let quotes = picture.split("<style>").next().unwrap_or("").matches('"').count();
        prop_assert_eq!(quotes % 2, 0);
    }

    #[test]
    fn escaped_text_has_no_marks(name in NAMES) {
        let text = escape(&name);
        prop_assert!(!text.contains(['<', '>', '"', '\'', ESCAPE]), "{}", text);
        let back = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
        prop_assert_eq!(back.replace("&amp;", "&").chars().count(), name.chars().count());
        let line = escape_markdown(&name);
        prop_assert!(!line.contains(['<', '\n', '\r']));
        let bars = line.replace("\\\\", "").replace("\\|", "");
        prop_assert!(!bars.contains('|'), "{}", line);
    }

    #[test]
    fn rows_of_markdown_have_as_many_cells_as_their_header(name in NAMES) {
        let text = plan::deployments(&named(&name)).to_markdown();
        let cells = |line: &str| line.replace("\\\\", "").replace("\\|", "").matches('|').count();
        let rows: Vec<&str> = text.lines().take(6).collect();
        for row in &rows {
            prop_assert_eq!(cells(row), cells(rows[0]), "{}", row);
        }
    }
}
