/** A command that does with curl what the page did. The key stays in a variable of the reader’s shell. */
export const curlOf = (origin: string, id: string): string =>
  `curl -sS -H "Authorization: Bearer $COFFERDAM_API_KEY" '${origin}/v1/executions/${encodeURIComponent(id)}'`
