/** Text that must not be in a tracked file: paths of one machine, hosts of one registry, unfinished work. */

// Assembled from pieces, so that this file does not report itself.
const MACHINE_PATHS = new RegExp(['work', 'root', 'farm'].map((name) => `(?<![\\w.@}-])/${name}/`).join('|'))
const HOSTS = new RegExp(['registry\\.npmjs', 'deb\\.debian'].map((name) => `${name}\\.org`).join('|'))
const UNDONE = new RegExp(
  `\\b(${['TO' + 'DO', 'FIX' + 'ME', 'X' + 'XX'].join('|')})\\b|\\b(it|test|describe)\\.(skip|only|to${'do'})\\b`,
)
const RESOLVED = /"resolved": "https?:\/\//

/**
 * Problems with file and line; none when the text is clean. Binary files and hashes in the lockfile are
 * skipped.
 */
export function strayText(path: string, text: string): string[] {
  if (text.includes('\0')) return []
  if (path === 'package-lock.json')
    return RESOLVED.test(text) ? [`${path}: carries registry addresses ("resolved")`] : []
  // Programs that attack a sandbox contain the paths that they attack.
  const mayNamePaths = path.startsWith('tests/security/programs/')
  const isCode = /^(apps|libs|tests|infra|scripts|bench|examples)\//.test(path)
  return text.split('\n').flatMap((line, index) => {
    const at = `${path}:${index + 1}`
    return [
      ...(!mayNamePaths && MACHINE_PATHS.test(line) ? [`${at}: a path of one machine`] : []),
      ...(HOSTS.test(line) ? [`${at}: the host of a registry`] : []),
      ...(isCode && UNDONE.test(line) ? [`${at}: work left undone or a test switched off`] : []),
    ]
  })
}
