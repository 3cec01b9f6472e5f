"""A service with an OpenAPI document that is not trivial, and a real server that tells what it was asked."""

from __future__ import annotations

import json
from typing import Any

from tests.tools.serving import Answered, Asked

DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "shop", "version": "1"},
    "servers": [{"url": "/{stage}", "variables": {"stage": {"default": "v1"}}}],
    "security": [{"key": []}],
    "paths": {
        "/items/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {
                "operationId": "getItem",
                "summary": "Get an item.",
                "description": "Prices are in cents.",
                "tags": ["items"],
                "parameters": [
                    {"name": "id", "in": "query", "schema": {"type": "string"}, "description": "of the view"},
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {
                        "name": "tags",
                        "in": "query",
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                    {"name": "where", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                    {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                ],
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}}}
                },
            },
            "put": {
                "operationId": "put item",
                "requestBody": {"$ref": "#/components/requestBodies/Item"},
                "responses": {"204": {"description": "done"}},
            },
            "delete": {"security": [{"basic": []}, {"bearer": [], "key": []}], "deprecated": True, "responses": {}},
        },
        "/login": {
            "post": {
                "operationId": "login",
                "security": [],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {
                                "type": "object",
                                "required": ["user"],
                                "properties": {
                                    "user": {"type": "string"},
                                    "scopes": {"type": "array", "items": {"type": "string"}},
                                },
                            }
                        }
                    },
                },
                "responses": {"200": {"description": "a text"}},
            }
        },
        "/search": {
            "get": {
                "operationId": "search",
                "security": [{"query_key": []}, {}],
                "parameters": [{"name": "api_key", "in": "query", "required": True, "schema": {"type": "string"}}],
                "responses": {},
            }
        },
        "/picture": {"get": {"operationId": "picture", "security": [{"cookie": []}], "responses": {}}},
        "/moved": {"get": {"operationId": "moved", "responses": {}}},
        "/broken": {"get": {"operationId": "broken", "responses": {}}},
    },
    "components": {
        "parameters": {"Id": {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}},
        "requestBodies": {
            "Item": {
                "required": True,
                "description": "the whole item",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}},
            }
        },
        "schemas": {
            "Item": {
                "type": "object",
                "required": ["id", "name"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "name": {"type": "string", "description": "as shown", "example": "tea"},
                    "colour": {"type": "string", "enum": ["red", "green"], "nullable": True},
                    "price": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Item"}},
                    "maker": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/Maker"}]},
                    "nullable": {"type": "boolean"},
                    "secret": {"type": "string", "writeOnly": True},
                },
            },
            "Maker": {"type": "object", "properties": {"name": {"type": "string"}}, "xml": {"name": "m"}},
        },
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "query_key": {"type": "apiKey", "in": "query", "name": "api_key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
            "basic": {"type": "http", "scheme": "Basic"},
            "bearer": {"type": "http", "scheme": "bearer"},
            "oauth": {"type": "oauth2", "flows": {}},
        },
    },
}


def answer(asked: Asked) -> Answered:
    """What the service answers: mostly what it was asked."""
    path = asked.path.partition("?")[0]
    as_json = {"content-type": "application/json"}
    match path.removeprefix("/v1"):
        case "/openapi.json":
            return Answered(body=json.dumps(DOCUMENT).encode(), headers=as_json)
        case "/picture":
            return Answered(body=b"\x89PNG", headers={"content-type": "image/png"})
        case "/broken":
            return Answered(body=b"{", headers=as_json)
        case "/login":
            return Answered(body=asked.body, headers={"content-type": "text/plain"})
        case "/items/none":
            return Answered(404, b'{"error": "no such item"}', {"content-type": "application/problem+json"})
        case _ if asked.method == "PUT":
            return Answered(204)
        case _:
            told = {"method": asked.method, "path": asked.path, "body": asked.body.decode()}
            return Answered(body=json.dumps(told).encode(), headers=as_json)
