"""Text from outside, as a terminal may show it."""


def written_out(text: str) -> str:
    r"""Returns a text in which characters that would steer a terminal are written out, such as `\x1b`.

    Line feeds and tabs stay. Names of topics and consumers, files and the answers of servers may have any character.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in text)
