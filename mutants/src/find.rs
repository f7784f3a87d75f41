//! Finds the mutants of a file.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, Attribute, BinOp, Block, Expr, Pat, ReturnType, Signature, UnOp};

use crate::candidates::{Candidate, Piece};
use crate::tree::Source;
use crate::values;

pub(crate) fn in_file(file: &Source) -> Result<Vec<Candidate>> {
    let parsed = syn::parse_file(&file.text).with_context(|| format!("{}", file.path.display()))?;
    let mut finder = Finder { file, function: Vec::new(), found: Vec::new(), seen: HashMap::new() };
    finder.visit_file(&parsed);
    Ok(finder.found)
}

/// Whether the code is not that of production, here.
pub(crate) fn is_other(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
            _ => String::new(),
        };
        text.contains("test") || text.contains("not")
    })
}

/// Names of the traits whose functions are but for messages.
const OF_MESSAGES: [&str; 2] = ["Debug", "Display"];

struct Finder<'a> {
    file: &'a Source,
    /// Modules, types and functions around.
    function: Vec<String>,
    found: Vec<Candidate>,
    seen: HashMap<String, usize>,
}

fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

impl Finder<'_> {
    fn text(&self, node: &impl Spanned) -> &str {
        self.file.text.get(range(node)).unwrap_or_default()
    }

    fn add(&mut self, at: &impl Spanned, change: String, range: Range<usize>, pieces: Vec<Piece>) {
        let function = self.function.join("::");
        let nth = self.seen.entry(format!("{function} {change}")).or_default();
        *nth += 1;
        self.found.push(Candidate {
            number: 0,
            file: self.file.path.clone(),
            line: at.span().start().line,
            function,
            change,
            nth: *nth,
            range,
            pieces,
        });
    }

    /// `(if active { changed } else { original })`.
    fn choose(&mut self, at: &impl Spanned, change: String, whole: &Expr, changed: Vec<Piece>) {
        let text = |text: &str| Piece::Text(text.to_owned());
        let mut pieces = vec![text("(if "), Piece::Switch, text(" { ")];
        pieces.extend(changed);
        pieces.extend([text(" } else { "), Piece::Original, text(" })")]);
        self.add(at, change, range(whole), pieces);
    }

    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.function.push(name);
        visit(self);
        self.function.pop();
    }

    /// A function that answers at once.
    fn function(
        &mut self,
        attributes: &[Attribute],
        signature: &Signature,
        block: &Block,
        visit: impl FnOnce(&mut Self),
    ) {
        if is_other(attributes) || signature.constness.is_some() {
            return;
        }
        self.within(signature.ident.to_string(), |finder| {
            let values = match &signature.output {
                ReturnType::Default => vec![String::new()],
                ReturnType::Type(_, answered) => values::of(answered),
            };
            let at = range(block).start + 1;
            let body = finder.text(block).trim_matches(|c: char| "{}".contains(c) || c.is_whitespace()).to_owned();
            for value in values.into_iter().filter(|value| *value != body) {
                let change = format!("answers {}", if value.is_empty() { "()" } else { &value });
                let pieces =
                    vec![Piece::Text(" if ".into()), Piece::Switch, Piece::Text(format!(" {{ return {value}; }}"))];
                finder.add(&signature.ident, change, at..at, pieces);
            }
            visit(finder);
        });
    }
}

/// Whether a condition binds names, so that it can only stand where it stands.
fn binds(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        Expr::Paren(inner) => binds(&inner.expr),
        _ => false,
    }
}

/// What stands in place of an operator: what cargo-mutants has, and the other side of a boundary.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">", "=="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Gt(_) => &[">=", "<", "=="],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::RemAssign(_) => &["/=", "+="],
        BinOp::BitXorAssign(_) => &["|=", "&="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        _ => &[],
    }
}

/// Whether a pattern holds for whatever is left.
fn is_rest(arm: &Arm) -> bool {
    arm.guard.is_none() && matches!(&arm.pat, Pat::Wild(_))
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_other(&module.attrs) {
            self.within(module.ident.to_string(), |finder| visit::visit_item_mod(finder, module));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if is_other(&item.attrs) || of.is_some_and(|of| OF_MESSAGES.iter().any(|name| of.ident == name)) {
            return;
        }
        let name = self.text(&item.self_ty).to_owned();
        let of = of.map_or(String::new(), |of| format!("{} of ", of.ident));
        self.within(format!("{of}{name}"), |finder| visit::visit_item_impl(finder, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if !is_other(&item.attrs) {
            self.within(item.ident.to_string(), |finder| visit::visit_item_trait(finder, item));
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block, |finder| visit::visit_block(finder, &item.block));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block, |finder| visit::visit_block(finder, &item.block));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block, |finder| visit::visit_block(finder, block));
        }
    }

    // What is computed when it is compiled has no switch.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        visit::visit_block(self, block);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let whole = Expr::Binary(binary.clone());
        if !binds(&whole) {
            let (left, right) = (range(&binary.left), range(&binary.right));
            let was = self.text(&binary.op).to_owned();
            for other in others(&binary.op) {
                let changed = vec![
                    Piece::Text("(".into()),
                    Piece::Source(left.clone()),
                    Piece::Text(format!(") {other} (")),
                    Piece::Source(right.clone()),
                    Piece::Text(")".into()),
                ];
                self.choose(&binary.op, format!("{was} is {other}"), &whole, changed);
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if let UnOp::Not(_) | UnOp::Neg(_) = unary.op {
            let was = self.text(&unary.op).to_owned();
            let changed = vec![Piece::Source(range(&unary.expr))];
            self.choose(&unary.op, format!("{was} is missing"), &Expr::Unary(unary.clone()), changed);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, matched: &'ast syn::ExprMatch) {
        let has_rest = matched.arms.iter().any(is_rest);
        for arm in &matched.arms {
            let name = self.text(&arm.pat).split_whitespace().collect::<Vec<_>>().join(" ");
            let text = |text: &str| Piece::Text(text.to_owned());
            match &arm.guard {
                Some((_, guard)) if !binds(guard) => {
                    let always = vec![text("("), Piece::Switch, text(" || ("), Piece::Original, text("))")];
                    self.add(guard, format!("the guard of {name} always holds"), range(guard), always);
                    let never = vec![text("(!"), Piece::Switch, text(" && ("), Piece::Original, text("))")];
                    self.add(guard, format!("the guard of {name} never holds"), range(guard), never);
                }
                None if has_rest && !is_rest(arm) => {
                    let end = range(&arm.pat).end;
                    self.add(
                        &arm.pat,
                        format!("the arm {name} is missing"),
                        end..end,
                        vec![text(" if !"), Piece::Switch],
                    );
                }
                _ => {}
            }
        }
        visit::visit_expr_match(self, matched);
    }
}
