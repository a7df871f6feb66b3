/**
 * Matches folded paths with folded patterns. Tenants choose the patterns and their programs choose the paths,
 * so the worst case must be fast. Each name of a path is compared at most once with each part of a pattern.
 */

type Matches<T> = (value: T) => boolean

/** A pattern for one name, in which `*` matches any characters. The pieces between are searched in order. */
export function compileName(glob: string): Matches<string> {
  const [first = '', ...pieces] = glob.split('*')
  const last = pieces.pop()
  if (last === undefined) return (name) => name === glob
  const middle = pieces.filter((piece) => piece !== '')
  const shortest = [first, ...middle, last].reduce((sum, piece) => sum + piece.length, 0)
  return (name) => {
    if (name.length < shortest || !name.startsWith(first) || !name.endsWith(last)) return false
    let at = first.length
    // The leftmost place of each piece leaves the most text for those after it.
    for (const piece of middle) {
      const found = name.indexOf(piece, at)
      if (found === -1) return false
      at = found + piece.length
    }
    return at <= name.length - last.length
  }
}

/** The names on a list, which may contain `*`. */
export function compileNames(globs: readonly string[]): Matches<string> {
  const whole = new Set(globs.filter((glob) => !glob.includes('*')))
  const patterns = globs.filter((glob) => glob.includes('*')).map(compileName)
  return (name) => whole.has(name) || patterns.some((matches) => matches(name))
}

/** A pattern for a path and everything below it, in which a part `**` matches any folders. */
export function compilePath(pattern: readonly string[]): Matches<readonly string[]> {
  // Several `**` in a row match as one does, and everything below a match is matched anyway.
  const parts = pattern
    .slice(0, pattern.findLastIndex((part) => part !== '**') + 1)
    .filter((part, at, all) => part !== '**' || all[at - 1] !== '**')
    .map((part) => (part === '**' ? 'folders' : compileName(part)))
  return (names) => {
    let [part, at] = [0, 0]
    /**
     * The index of the part after the last `**`, and the index of the name at which that part was last tried.
     */
    let [retryPart, retryAt] = [-1, 0]
    for (;;) {
      const matches = parts[part]
      const name = names[at]
      if (matches === undefined) return true
      if (matches === 'folders') {
        part += 1
        ;[retryPart, retryAt] = [part, at]
      } else if (name === undefined) {
        // No names are left. If the last `**` matched more names, even fewer would be left.
        return false
      } else if (matches(name)) {
        part += 1
        at += 1
      } else if (retryPart === -1) {
        return false
      } else {
        // Lets the last `**` match one more name. If an earlier `**` matched more, that would only leave
        // fewer names.
        retryAt += 1
        ;[part, at] = [retryPart, retryAt]
      }
    }
  }
}
