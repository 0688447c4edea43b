//! The attribute `#[durable]` of `mundi-sdk`. It reads the head of one function, so it needs no parser of the whole language.

use proc_macro::{Ident, TokenStream, TokenTree};

/// Makes an `async fn` a durable function: see `mundi_sdk::functions::Durable`.
#[proc_macro_attribute]
pub fn durable(options: TokenStream, function: TokenStream) -> TokenStream {
    let added = match declared(options, function.clone()) {
        Ok(text) | Err(text) => text,
    };
    let added: TokenStream = added.parse().unwrap_or_default();
    // The function stays as it is: its own errors are shown where they are.
    function.into_iter().chain(added).collect()
}

/// The declaration that goes with a function, or the error in its place.
fn declared(options: TokenStream, function: TokenStream) -> Result<String, String> {
    let Head { visibility, name } = head(function).map_err(error)?;
    let text = name.to_string();
    let event = event(options).map_err(error)?.unwrap_or_else(|| format!("{:?}", text.trim_start_matches("r#")));
    Ok(format!(
        "#[allow(non_camel_case_types)]
        #[doc = \"The durable function of this name, for `Functions::with`.\"]
        {visibility} enum {text} {{}}

        impl ::mundi_sdk::functions::Durable for {text} {{
            const NAME: &'static str = {event};

            fn register(functions: ::mundi_sdk::functions::Functions) -> ::mundi_sdk::functions::Functions {{
                functions.durable({event}, {text})
            }}
        }}"
    ))
}

fn error(message: &str) -> String {
    format!("::core::compile_error!({message:?});")
}

/// The name of the event, as the literal in `#[durable("order.placed")]`.
fn event(options: TokenStream) -> Result<Option<String>, &'static str> {
    let options: Vec<_> = options.into_iter().collect();
    match &options[..] {
        [] => Ok(None),
        [TokenTree::Literal(name)] if name.to_string().starts_with('"') => Ok(Some(name.to_string())),
        _ => Err("`#[durable]` takes at most the name of the event: `#[durable(\"order.placed\")]`"),
    }
}

struct Head {
    visibility: String,
    name: Ident,
}

fn head(function: TokenStream) -> Result<Head, &'static str> {
    let mut tokens = function.into_iter().peekable();
    let (mut visibility, mut is_async) = (String::new(), false);
    loop {
        match tokens.next() {
            // An attribute, or the comment that became one.
            Some(TokenTree::Punct(punct)) if punct.as_char() == '#' => drop(tokens.next()),
            Some(TokenTree::Ident(word)) => match &*word.to_string() {
                "pub" => {
                    visibility.push_str("pub");
                    if let Some(TokenTree::Group(within)) = tokens.peek() {
                        visibility.push_str(&within.to_string());
                        tokens.next();
                    }
                }
                "async" => is_async = true,
                "fn" => break,
                _ => return Err("`#[durable]` stands before `async fn`, and nothing else"),
            },
            _ => return Err("`#[durable]` stands before `async fn`, and nothing else"),
        }
    }
    if !is_async {
        return Err("a durable function is `async fn`: what it waits for is on record");
    }
    let Some(TokenTree::Ident(name)) = tokens.next() else {
        return Err("a durable function has a name");
    };
    let Some(TokenTree::Group(params)) = tokens.next() else {
        return Err("a durable function has no type parameters: its input is read from JSON");
    };
    match count(params.stream()) {
        Some(2) => Ok(Head { visibility, name }),
        Some(_) => Err("a durable function takes its context and its input: `async fn order(ctx: Ctx, order: Order)`"),
        None => Err("a durable function is no method: declare it beside the `impl`"),
    }
}

/// How many parameters there are; none of a method.
fn count(params: TokenStream) -> Option<usize> {
    let (mut depth, mut before, mut found, mut is_open) = (0_usize, ' ', 0, false);
    for token in params {
        let mark = match &token {
            TokenTree::Punct(punct) => punct.as_char(),
            TokenTree::Ident(word) if word.to_string() == "self" => return None,
            _ => ' ',
        };
        match mark {
            ',' if depth == 0 => is_open = false,
            _ => {
                found += usize::from(!is_open);
                is_open = true;
            }
        }
        match (before, mark) {
            (_, '<') => depth += 1,
            // `->` closes nothing.
            ('-', '>') => {}
            (_, '>') => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = mark;
    }
    Some(found)
}
