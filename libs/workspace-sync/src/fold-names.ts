/**
 * Folds names as file systems do: NTFS ignores trailing dots and spaces and anything after a colon, HFS+
 * ignores invisible code points, and most ignore case. Rules compare folded names, so no spelling bypasses
 * them.
 */

/** One part of a path, folded. */
export function foldPart(part: string): string {
  return foldLetters(part.replace(/:.*$/s, '')).replace(/[. ]+$/, '')
}

/** All parts of a path, folded. Paths with the same result are the same file on some file system. */
export const foldPath = (path: string): string => path.split('/').map(foldPart).join('/')

/** A part of a pattern, folded. Unlike in names, text after a colon and trailing dots are kept. */
export const foldGlob = (part: string): string => foldLetters(part)

function foldLetters(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
    .toUpperCase()
    .toLowerCase()
    .normalize('NFKC')
}
