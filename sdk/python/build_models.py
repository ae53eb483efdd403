"""Build hook: generates the types of the API from openapi.json."""

from pathlib import Path
from typing import Any

from datamodel_code_generator import (
    DataModelType,
    Formatter,
    InputFileType,
    OpenAPIScope,
    PythonVersion,
    generate,
)
from datamodel_code_generator.parser import LiteralType
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HEADER = '"""Types of the API, generated from openapi.json. Members that this version does not know are kept."""'


class ModelsHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        generate(
            (root / "../../openapi.json").resolve(),
            input_file_type=InputFileType.OpenAPI,
            openapi_scopes=[OpenAPIScope.Schemas],
            output=root / "src/berth/models.py",
            output_model_type=DataModelType.TypingTypedDict,
            target_python_version=PythonVersion.PY_311,
            enum_field_as_literal=LiteralType.All,
            use_standard_collections=True,
            use_union_operator=True,
            use_schema_description=True,
            use_field_description=True,
            custom_file_header=HEADER,
            formatters=[Formatter.BUILTIN],
        )
