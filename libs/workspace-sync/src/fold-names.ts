/**
 * Names as the most forgiving file system reads them: NTFS drops trailing dots and spaces and what follows a colon, HFS+
 * code points that are not shown, and most of them fold case. Rules compare folded names, so that no spelling of a name
 * passes for another.
 */

/** One part of a path, folded. */
export function foldPart(part: string): string {
  return foldLetters(part.replace(/:.*$/s, '')).replace(/[. ]+$/, '')
}

/** All parts of a path folded; two paths that give the same text are one file somewhere. */
export const foldPath = (path: string): string => path.split('/').map(foldPart).join('/')

/** A part of a pattern, folded; what follows a colon or a last dot is not cut off a pattern. */
export const foldGlob = (part: string): string => foldLetters(part)

function foldLetters(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
    .toUpperCase()
    .toLowerCase()
    .normalize('NFKC')
}

/** Whether a folded name fits a folded pattern, whose `*` stands for any characters. Quadratic at worst. */
export function matchesPart(glob: string, text: string): boolean {
  let [g, t, star, mark] = [0, 0, -1, 0]
  while (t < text.length) {
    if (glob[g] === '*') {
      star = g
      mark = t
      g += 1
    } else if (glob[g] === text[t]) {
      g += 1
      t += 1
    } else if (star >= 0) {
      // The last star takes one character more.
      g = star + 1
      mark += 1
      t = mark
    } else return false
  }
  while (glob[g] === '*') g += 1
  return g === glob.length
}
