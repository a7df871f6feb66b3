/**
 * The value of a word of shell text that needs no expansion. Quotes and escapes are constant: `r\m`, `"rm"`,
 * `r''m` and `$'\x72m'` are all `rm`. Variables, substitutions, globs and braces are not.
 */
import type { CommandArgument, Redirection, Word, WordPart } from 'unbash'

/**
 * One word as the shell would pass it to the program. Null if it is known only at run time, when it may
 * become no word or several.
 */
export type Argument = string | null

/** The value of a constant word. Null for any other. */
export function constantOf(word: Word): Argument {
  return word.parts === undefined || word.parts.every(isConstant) ? word.value : null
}

/** The value of an argument. Only the part of `export X=$Y` before the `=` has to be constant. */
export function argumentOf(argument: CommandArgument): Argument {
  if (argument.type === 'Word') return constantOf(argument)
  const value = argument.value.type === 'Word' ? constantOf(argument.value) : null
  return `${argument.name}${argument.index === undefined ? '' : '[]'}=${value ?? ''}`
}

/**
 * The text that a here-document or here-string gives to a command's standard input. Null when it is not
 * constant, undefined when there is none.
 */
export function constantInput(redirects: readonly Redirection[]): Argument | undefined {
  let input: Argument | undefined
  for (const redirect of redirects) {
    const { descriptor } = redirect
    if (descriptor !== undefined && !(descriptor.type === 'FileDescriptor' && descriptor.value === 0))
      continue
    if (redirect.type === 'HereString')
      input = redirect.target === undefined ? null : constantOf(redirect.target)
    if (redirect.type !== 'HereDoc') continue
    const { body, delimiter } = redirect
    const literal = body.parts === undefined || body.parts.every((part) => part.type === 'Literal')
    // Without quotes around the delimiter, a backslash in the body is an escape.
    const isText = delimiter?.quoted === true || (literal && !body.text.includes('\\'))
    input = isText ? body.text : null
  }
  return input
}

function isConstant(part: WordPart): boolean {
  switch (part.type) {
    case 'Literal':
    case 'SingleQuoted':
    case 'AnsiCQuoted':
      return true
    case 'DoubleQuoted':
    case 'LocaleString':
      return part.parts.every(isConstant)
    default:
      return false
  }
}
