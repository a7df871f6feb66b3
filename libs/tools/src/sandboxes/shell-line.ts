/** Lines for bash. */

/** `text` as one word of a shell. Throws for a NUL, which no argument can have. */
export function quoted(text: string): string {
  if (text.includes('\0')) throw new TypeError('A path or an argument has a NUL character.')
  return /^[\w%+,./:=@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** A line that runs `command` in `folder`. Both are on one line, so the line numbers of errors stay right. */
export const inFolder = (folder: string | null, command: string): string => {
  // The API refuses an empty line, and a shell does nothing with it.
  const line = command.trim() === '' ? ':' : command
  return folder === null ? line : `cd -- ${quoted(folder)} || exit 1; ${line}`
}
