"""Verifies an ID token as another service would: finds the key through discovery, and prints the claims."""

import json
import sys
import urllib.request

import jwt

issuer, audience, path = sys.argv[1:]
with urllib.request.urlopen(issuer + "/.well-known/openid-configuration") as response:
    metadata = json.load(response)
with open(path) as file:
    token = file.read()
key = jwt.PyJWKClient(metadata["jwks_uri"]).get_signing_key_from_jwt(token)
claims = jwt.decode(
    token,
    key,
    algorithms=metadata["id_token_signing_alg_values_supported"],
    audience=audience,
    issuer=metadata["issuer"],
    options={"require": ["iss", "aud", "sub", "iat", "nbf", "exp", "jti"]},
)
print(json.dumps(claims))
