//! The parts that all operations of the OpenAPI document share, so that each handler states only its own: unique names,
//! parameters of the address, descriptions, which bodies may be left out, the token, and the problem document of every
//! refusal.

use utoipa::openapi::{
    Components, ContentBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder, SecurityRequirement,
    path::{Operation, ParameterBuilder, ParameterIn},
    request_body::RequestBody,
    schema::{ObjectBuilder, Schema, SchemaType, Type},
    security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};

const TOKEN: &str = "token";

/// The addresses that an anonymous client may ask.
const OPEN: [&str; 2] = ["/livez", "/readyz"];

pub(super) fn complete(mut document: OpenApi) -> OpenApi {
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("mundi_…")
        .description(Some("A token (`mundi token create`). A server on a loopback address asks for none."));
    components.security_schemes.insert(TOKEN.to_owned(), RefOr::T(SecurityScheme::Http(bearer.build())));
    for (path, item) in &mut document.paths.paths {
        let methods = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete];
        for operation in methods.into_iter().flatten() {
            name(operation);
            add_params(path, operation);
            describe_responses(operation);
            if let Some(RefOr::T(body)) = &mut operation.request_body {
                body.required = Some(if may_be_left_out(body, components) { Required::False } else { Required::True });
            }
            if !OPEN.contains(&&**path) {
                let (none, token) = (SecurityRequirement::default(), SecurityRequirement::new(TOKEN, [""; 0]));
                operation.security = Some(vec![token, none]);
            }
        }
    }
    document
}

/// The functions of two nouns may have one name; with their noun before it they are unique.
fn name(operation: &mut Operation) {
    let tag = operation.tags.iter().flatten().next().map(|tag| tag.replace(' ', "_"));
    if let (Some(tag), Some(id)) = (tag, &mut operation.operation_id) {
        *id = format!("{tag}_{id}");
    }
}

fn add_params(path: &str, operation: &mut Operation) {
    let names = path.split(['{', '}']).skip(1).step_by(2);
    let params = names.map(|name| {
        let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).build();
        let param = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
        RefOr::T(param.description(meaning(name)).schema(Some(text)).build())
    });
    operation.parameters.get_or_insert_default().extend(params);
}

/// The meaning of a parameter of an address.
fn meaning(param: &str) -> Option<&'static str> {
    Some(match param {
        "universe" => "The name of a universe, such as `default`, or its id (`u_…`)",
        "world" => "The name of a world, or its id (`w_…`)",
        "event" => "The name of an event of the program",
        "query" => "The name of a query of the program",
        "call" => "What the header `mundi-call` of the call's answer said",
        "effect" => "The intent of the effect (`i_…`), which stays the same; or its place in the queue (`e_…`)",
        "worker" => "The id of a worker",
        "letter" => "Its queue and its place there, as the list has it",
        "hash" => "A hash (`h_…`)",
        "height" => "The height of a record",
        "key" => "The key of a cell; it may contain `/`",
        "pool" => "The name of a pool",
        "resource" => "The name of a resource, or its id (`r_…`)",
        "lease" => "The id of a lease of a pool (`l_…`)",
        "ticket" => "A place in a pool's queue (`l_…`)",
        "token" => "The id of a token, not its secret",
        _ => return None,
    })
}

fn describe_responses(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            response.description = match &**status {
                "201" => "Made",
                "202" => "Durable; what follows from it is not waited for",
                _ => "Done",
            }
            .to_owned();
        }
    }
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let refusal = ResponseBuilder::new()
        .description("A refusal, with a stable `code`")
        .content("application/problem+json", problem)
        .build();
    operation.responses.responses.insert("default".to_owned(), RefOr::T(refusal));
}

/// No body stands for `{}` where fields are expected, and for null where any value is.
fn may_be_left_out(body: &RequestBody, components: &Components) -> bool {
    let schemas = body.content.values().filter_map(|content| match content {
        RefOr::T(content) => content.schema.as_ref(),
        RefOr::Ref(_) => None,
    });
    let mut forms = schemas.map(|schema| match schema {
        RefOr::T(schema) => Some(schema),
        RefOr::Ref(to) => match components.schemas.get(to.ref_location.rsplit('/').next().unwrap_or_default()) {
            Some(RefOr::T(schema)) => Some(schema),
            _ => None,
        },
    });
    forms.all(|form| match form {
        Some(Schema::Object(object)) if object.schema_type == SchemaType::AnyValue => true,
        Some(Schema::Object(object)) => {
            object.schema_type == SchemaType::Type(Type::Object) && object.required.is_empty()
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    /// The types of the client libraries are generated from this file.
    #[test]
    fn the_document_in_clients_is_the_one_that_is_served() {
        let document = crate::api::openapi().to_pretty_json().unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/openapi.json");
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == document, "clients/openapi.json is no longer so; `cargo xtask clients` writes it anew");
    }
}
