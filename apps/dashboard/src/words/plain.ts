/** Makes texts of programs and people fit for the screen. */

// oxlint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g
/** Characters that change the direction of what follows: text could pass for other text. */
const DIRECTIONS = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g
/** Marks beyond these on one character only cover what is written around it. */
const MARKS = /(\p{M}{4})\p{M}+/gu

/** Most lines of most programs, of which there may be millions. */
const PLAIN = /^[\t\n -~]*$/

/** A text without control characters that stays in its line and shows its characters in their order. */
export const plainText = (text: string): string =>
  PLAIN.test(text) ? text : text.replace(CONTROLS, '').replace(DIRECTIONS, '\ufffd').replace(MARKS, '$1')
