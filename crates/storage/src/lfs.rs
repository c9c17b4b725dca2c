//! `lfs`: what users ask Lustre about targets and layouts.
//!
//! Source: the output of `lfs df`, `lfs osts`, `lfs mdts` and `lfs getstripe` of Lustre 2.15.
//! Modelled: an empty file system of the parts; layouts with components. Files do not outlive a command: `setstripe` shows at once what
//! `getstripe` would show.

use std::fmt::Write;

use fabriscope_lustre::layout::Component;
use fabriscope_lustre::{Layout, System};
use fabriscope_tool::arguments::{self, Meaning, Opt, Takes, opt};
use fabriscope_tool::{ToolOutput, UsageError};
use fabriscope_units::Bytes;

use crate::ior;
use crate::mount::Mount;

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    opt('c', "stripe-count", Takes::Value("count"), Meaning::Usual, "of setstripe: OSTs, -1 for all"),
    opt('S', "stripe-size", Takes::Value("bytes"), Meaning::Usual, "of setstripe: bytes on an OST before the next"),
    opt('E', "component-end", Takes::Value("bytes"), Meaning::Usual, "of setstripe: where a component ends, -1 for the last"),
    opt('h', "human-readable", Takes::Nothing, Meaning::Usual, "of df: with units"),
    opt('\0', "help", Takes::Nothing, Meaning::Usual, "show this page"),
];

const NOTES: &str = "\nCommands: df, osts, mdts, setstripe FILE, getstripe FILE\n";

/// Runs it.
pub(crate) fn run(args: &[String], mount: &Mount) -> Result<ToolOutput, UsageError> {
    let parsed = arguments::parse("lfs", OPTIONS, args)?;
    let mut human = false;
    let mut components: Vec<Given> = vec![(None, None, None)];
    for given in &parsed.options {
        let text = given.value.as_deref().unwrap_or_default();
        let at = components.len() - 1;
        match given.name {
            "stripe-count" => components[at].1 = Some(ior::stripes(&given.typed, text)?),
            "stripe-size" => components[at].2 = Some(Bytes(ior::bytes(&given.typed, text)?)),
            "component-end" => {
                let end = if matches!(text, "-1" | "eof" | "EOF") { None } else { Some(Bytes(ior::bytes(&given.typed, text)?)) };
                if components[at].0.is_some() {
                    components.push((Some(end), None, None));
                } else {
                    components[at].0 = Some(end);
                }
            }
            "human-readable" => human = true,
            _ => return Err(UsageError::Help { text: arguments::help("lfs", crate::StorageTool::Lfs.about(), OPTIONS, NOTES) }),
        }
    }
    let command = parsed.operands.first().map_or("", String::as_str);
    let file = parsed.operands.get(1).map_or("file", String::as_str);
    let text = match command {
        "df" => df(mount, human),
        "osts" => targets(mount, "OST", mount.system.osts()),
        "mdts" => targets(mount, "MDT", mount.system.mdts()),
        "setstripe" | "getstripe" => stripes(mount, &components, file)?,
        _ => {
            let what = if command.is_empty() { "lfs without a command".to_owned() } else { format!("lfs has no command `{command}` here") };
            return Err(UsageError::Conflict { what, remedy: "use df, osts, mdts, setstripe or getstripe".to_owned() });
        }
    };
    Ok(ToolOutput { text, ..ToolOutput::default() })
}

fn uuid(mount: &Mount, kind: &str, number: u32) -> String {
    format!("{}-{kind}{number:04x}_UUID", mount.files.part.name)
}

fn df(mount: &Mount, human: bool) -> String {
    let System { oss, mds, .. } = &mount.system;
    let shown = |bytes: u64| if human { short(bytes) } else { (bytes / 1024).to_string() };
    let title = if human { "bytes" } else { "1K-blocks" };
    let mut text = format!("{:<24} {title:>11} {:>11} {:>11} {:>4} Mounted on\n", "UUID", "Used", "Available", "Use%");
    let mut line = |name: String, bytes: u64, at: String| {
        let _ = writeln!(text, "{name:<24} {:>11} {:>11} {:>11} {:>3}% {at}", shown(bytes), shown(0), shown(bytes), 0);
    };
    let name = &mount.files.part.name;
    for number in 0..mount.system.mdts() {
        line(uuid(mount, "MDT", number), mds.capacity.0, format!("/mnt/{name}[MDT:{number}]"));
    }
    for number in 0..mount.system.osts() {
        line(uuid(mount, "OST", number), oss.capacity.0, format!("/mnt/{name}[OST:{number}]"));
    }
    let all = oss.capacity.0.saturating_mul(mount.system.osts().into());
    let _ =
        write!(text, "\n{:<24} {:>11} {:>11} {:>11} {:>3}% /mnt/{name}\n\n", "filesystem_summary:", shown(all), shown(0), shown(all), 0);
    text
}

fn short(bytes: u64) -> String {
    let (mut left, mut unit) = (bytes as f64, 0);
    while left >= 1024.0 && unit < 5 {
        left /= 1024.0;
        unit += 1;
    }
    format!("{left:.1}{}", ["", "K", "M", "G", "T", "P"][unit])
}

fn targets(mount: &Mount, kind: &str, count: u32) -> String {
    let mut text = if kind == "OST" { "OBDS:\n" } else { "MDTS:\n" }.to_owned();
    for number in 0..count {
        let _ = writeln!(text, "{number}: {} ACTIVE", uuid(mount, kind, number));
    }
    text
}

/// A component's end, count and size, as far as they are given.
type Given = (Option<Option<Bytes>>, Option<i32>, Option<Bytes>);

fn stripes(mount: &Mount, given: &[Given], file: &str) -> Result<String, UsageError> {
    let part = &mount.files.part;
    let osts = mount.system.osts();
    let components = given.iter().map(|(end, count, size)| {
        let count = count.unwrap_or(*part.stripe_count);
        Component { end: end.flatten(), count: u32::try_from(count).unwrap_or(osts), size: size.unwrap_or(*part.stripe_size) }
    });
    let layout = Layout::composite(components.collect(), osts).map_err(ior::refused)?;
    let mut text = format!("{file}\n");
    let mut first = 0;
    let composite = layout.components().len() > 1;
    let mut begin = Bytes(0);
    for (number, component) in layout.components().iter().enumerate() {
        let indent = if composite { "      " } else { "" };
        if composite {
            let end = component.end.map_or("EOF".to_owned(), |end| end.0.to_string());
            let _ = write!(
                text,
                "    lcme_id:             {}\n    lcme_extent.e_start: {}\n    lcme_extent.e_end:   {end}\n",
                number + 1,
                begin.0
            );
            begin = component.end.unwrap_or(begin);
        }
        let offset = layout.target(0, first);
        for (key, told) in [
            ("lmm_stripe_count:", component.count.to_string()),
            ("lmm_stripe_size:", component.size.0.to_string()),
            ("lmm_pattern:", "raid0".to_owned()),
            ("lmm_layout_gen:", "0".to_owned()),
            ("lmm_stripe_offset:", offset.to_string()),
        ] {
            let _ = writeln!(text, "{indent}{key:<19}{told}");
        }
        let _ = writeln!(text, "{indent}\tobdidx\t\t objid\t\t objid\t\t group");
        for object in 0..component.count {
            let target = layout.target(0, first + object);
            let _ = writeln!(text, "{indent}\t{target:>6}\t{0:>14}\t{1:>14}\t{2:>14}", 2 + object, format!("{:#x}", 2 + object), 0);
        }
        text.push('\n');
        first += component.count;
    }
    Ok(text)
}
