/**
 * Cleans text of programs for models and people. Programs are hostile: their output could move a terminal's
 * cursor, or hide words that only a model sees. The API cleans its MCP results in the same way.
 */

/**
 * Sequences that terminals obey (ECMA-48): OSC and other strings up to their terminator, CSI with its
 * parameters, and two-character escapes. The length of a string is bounded, so that one without an end
 * removes little text.
 */
/* oxlint-disable no-control-regex */
const TERMINAL = new RegExp(
  [
    /\u001b[\]PX^_][^\u0007\u001b\u009c]{0,4096}(?:\u0007|\u001b\\|\u009c)/,
    /(?:\u001b\[|\u009b)[0-?]{0,64}[ -/]{0,16}[@-~]/,
    /\u001b[ -/]{0,16}[0-~]/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
)
/* oxlint-enable no-control-regex */

/**
 * Control characters except tab and line feed, characters that change the direction of text, unpaired
 * surrogates, and the tag characters of Unicode, which no font shows.
 */
const INVISIBLE =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}\p{Surrogate}]/gu

/** `text` without terminal sequences. Other characters that hide or rearrange text become `�`. */
export const cleanText = (text: string): string =>
  text.replaceAll(/\r\n?/g, '\n').replaceAll(TERMINAL, '').replaceAll(INVISIBLE, '\ufffd')
