"""Writes `static/vega.js`: Vega, Vega-Lite and Vega-Embed as one script, with the licenses of all that is in it.

`vl-convert`, from which it comes, takes 84 MB and 2 s, so the script is kept in the package. `make vega` writes it anew
after an upgrade of Altair or vl-convert; a test says when it does not fit Altair's version of Vega-Lite.
"""

from pathlib import Path

STATIC = Path(__file__).parent / "static"
_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def main() -> None:
    """Writes the script."""
    import altair  # noqa: PLC0415 - the rest of the package needs no more than the paths of this module
    import vl_convert  # noqa: PLC0415 - only for development

    version = altair.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    licenses = (STATIC / "vega-licenses.txt").read_text(encoding="utf-8")
    assert "*/" not in licenses
    script = vl_convert.javascript_bundle(_SNIPPET, vl_version=version)
    (STATIC / "vega.js").write_text(f"/*! Vega-Lite {version}\n\n{licenses}*/\n{script}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
