'use strict'
/**
 * Allows import statements in a source that runs as a script, as in a notebook cell. Imports at the beginning
 * become assignments of `await import()` to global names, which later runs see. An import after another
 * statement stays an error, so text that only looks like an import is never changed. Line numbers stay.
 */

/** What may stand between imports: spaces, comments, and a directive. */
const BETWEEN = /(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/|(['"])use strict\1;?)*/y
const NAME = '[\\p{ID_Start}$_][\\p{ID_Continue}$]*'
const IMPORT = new RegExp(
  `import\\s*(?:(?<own>${NAME})\\s*(?:,\\s*)?)?(?:\\*\\s*as\\s+(?<all>${NAME})|\\{(?<named>[^}]*)\\})?\\s*` +
    `(?:\\bfrom\\s*|(?<=import\\s*))(?<module>'[^'\\n]*'|"[^"\\n]*")` +
    `(?:\\s*with\\s*(?<pairs>\\{[^}]*\\}))?[ \\t]*;?`,
  'uy',
)

/** Rewrites the imports at the beginning of the source; returns null if there are none. */
function withoutImports(source) {
  let at = 0
  let text = ''
  let found = false
  for (;;) {
    BETWEEN.lastIndex = at
    const between = BETWEEN.exec(source)[0]
    IMPORT.lastIndex = at + between.length
    const statement = IMPORT.exec(source)
    if (statement === null) break
    found = true
    const lines = statement[0].split('\n').length - 1
    text += between + assignment(statement.groups) + '\n'.repeat(lines)
    at = IMPORT.lastIndex
  }
  return found ? text + source.slice(at) : null
}

function assignment({ own, all, named, module: name, pairs }) {
  const loaded = `await import(${name}${pairs === undefined ? '' : `, { with: ${pairs} }`})`
  const picked = (named ?? '').split(',').flatMap((part) => {
    const [outer, inner = outer] = part.trim().split(/\s+as\s+/)
    return outer === '' ? [] : [`${outer}: globalThis.${inner}`]
  })
  if (own !== undefined) picked.unshift(`default: globalThis.${own}`)
  if (all === undefined) return picked.length === 0 ? `${loaded};` : `({ ${picked.join(', ')} } = ${loaded});`
  return `globalThis.${all} = ${loaded};${own === undefined ? '' : ` globalThis.${own} = globalThis.${all}.default;`}`
}

module.exports = { withoutImports }
