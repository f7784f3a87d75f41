//! Values that a function may answer at once.

use syn::{GenericArgument, PathArguments, Type};

/// Expressions of values of a type. Those that are none do not compile, and are not drawn.
pub(crate) fn of(answered: &Type) -> Vec<String> {
    let text = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
    match answered {
        Type::Tuple(tuple) if tuple.elems.is_empty() => text(&["()"]),
        Type::Tuple(tuple) => {
            let first = tuple.elems.iter().filter_map(|part| of(part).into_iter().next());
            let first: Vec<String> = first.collect();
            vec![format!("({},)", first.join(", "))]
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => text(&["\"\"", "\"xyzzy\""]),
            Type::Slice(_) if reference.mutability.is_none() => text(&["&[]"]),
            _ => Vec::new(),
        },
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Vec::new() };
            let inner = || inner_type(&last.arguments).map(of).unwrap_or_default();
            let wrapped = |name: &str| inner().into_iter().map(|value| format!("{name}({value})")).collect::<Vec<_>>();
            match last.ident.to_string().as_str() {
                "bool" => text(&["true", "false"]),
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => text(&["0", "1"]),
                "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => text(&["0", "1", "-1"]),
                "f32" | "f64" => text(&["0.0", "1.0"]),
                "String" => text(&["String::new()", "\"xyzzy\".into()"]),
                "Vec" => text(&["Vec::new()", "vec![Default::default()]"]),
                "Option" => [text(&["None"]), wrapped("Some")].concat(),
                "Result" => wrapped("Ok"),
                "Box" | "Arc" => wrapped(&format!("{}::new", last.ident)),
                _ => text(&["Default::default()"]),
            }
        }
        _ => Vec::new(),
    }
}

/// The first type of `Name<…>`.
fn inner_type(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}
