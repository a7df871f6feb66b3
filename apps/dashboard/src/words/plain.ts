/** Makes texts of programs and people fit for the screen. */

// oxlint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g
/** Characters that change the direction of what follows: text could pass for other text. */
const DIRECTIONS = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g
/** Four combining marks on one character stay. More would only cover the text around it. */
const MARKS = /(\p{M}{4})\p{M}+/gu

/** Matches most lines of output, so that these skip the replacements. There may be millions of them. */
const PLAIN = /^[\t\n -~]*$/

/**
 * The text without control characters, except tab and line feed. Its marks stay within the line, and its
 * characters show in their order.
 */
export const plainText = (text: string): string =>
  PLAIN.test(text) ? text : text.replace(CONTROLS, '').replace(DIRECTIONS, '\ufffd').replace(MARKS, '$1')
