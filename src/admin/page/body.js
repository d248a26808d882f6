// JSON with line breaks. Not parsed and written anew: that would change long numbers and repeated
// names, and what is shown here is what the consumer gets.

const TOKEN = /"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s{}[\],:"]+/g;

/** The same tokens, indented; a cut-off end stays cut off. */
export function indented(text) {
  const tokens = text.match(TOKEN) ?? [];
  let [depth, out] = [0, ""];
  const line = () => `\n${"  ".repeat(Math.max(depth, 0))}`;
  tokens.forEach((token, place) => {
    const [before, after] = [tokens[place - 1], tokens[place + 1]];
    if (token === "{" || token === "[") {
      out += token;
      depth += 1;
      if (after && after !== "}" && after !== "]") out += line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      if (before !== "{" && before !== "[") out += line();
      out += token;
    } else if (token === ",") {
      out += token + line();
    } else if (token === ":") {
      out += ": ";
    } else {
      out += token;
    }
  });
  return out;
}
