'use strict'
/**
 * Supports TypeScript as users write it: modules without an ending or with that of the compiled JavaScript,
 * `paths` of tsconfig.json, imports of types, and syntax beyond types.
 *
 *   types alone                              Node's own stripping, as without us
 *   enum, namespace, types among imports …   amaro, which is that stripper with its transform mode
 *   decorators, .tsx                         the TypeScript compiler
 *
 * gate.cjs loads it only for programs that need it, and each library is loaded for a file that needs it.
 */
const fs = require('node:fs')
const path = require('node:path')
const { _pathCache: pathCache, registerHooks } = require('node:module')
const { fileURLToPath, pathToFileURL } = require('node:url')

const IS_TYPESCRIPT = /\.(?:[mc]?ts|tsx)$/
const NOT_ERASABLE =
  /\b(?:enum|namespace|module)\b|\(\s*(?:[^()]*,\s*)?(?:@[\w.]+(?:\([^()]*\))?\s*)*(?:public|private|protected|readonly|override)\s|\bimport\s+(?:type\s+)?[\w$]+\s*=|\bexport\s*=|\bexport\s+import\b|(?:[=(,?:;&|[!]|\breturn)\s*<(?:[A-Za-z_$][\w$.,\s[\]|&]*>\s*[\w$"'`{[]|(?:any|unknown|object|string|number|boolean)\b[^<>]*>\s*\()/
const COMMENTS = /\/\*[^]*?\*\/|\/\/.*/g
const DECORATOR = /(?:^|[\s(,{;])@[A-Za-z_$(]/m
/** Also true for an @ in a string, which costs only the compiler's time. */
const hasDecorators = (source) => source.includes('@') && DECORATOR.test(source.replaceAll(COMMENTS, ''))
const SPECIFIER = /(?:\bfrom|\bimport|\brequire\s*\()\s*\(?\s*['"](?!node:)([^'"\n]+)['"]/g
const IMPORT = /\bimport\s+(?!type\s)(?:([\w$]+)\s*,?\s*)?(?:\{([^}]*)\})?\s*from\s*['"](?!node:)[^'"]*['"]/g

const MODULE_SYNTAX = /^\s*(?:import\s*[\w{*"'$]|export\s*[\w{*@]|(?:[\w$ ,=]+=\s*)?await\s)/m

/** Endings that tsc tries, in its order, and the sources of its output. */
const ENDINGS = ['.ts', '.tsx', '.mts', '.cts', '.js', '.mjs', '.cjs', '.json']
const SOURCES = { '.js': ['.ts', '.tsx'], '.jsx': ['.tsx'], '.mjs': ['.mts'], '.cjs': ['.cts'] }
const NOT_FOUND = ['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND', 'ERR_UNSUPPORTED_DIR_IMPORT']

/** Hooks the program's imports only if that can matter, because Node shows hooks in error frames. */
function install(entry, source) {
  // Node before 22.15 has no such hooks.
  if (registerHooks === undefined) return
  const project = readProject()
  if (IS_TYPESCRIPT.test(entry) && !isNeeded(path.resolve(entry), source, project)) return
  registerHooks({
    resolve(specifier, context, next) {
      const folder = folderOf(context.parentURL)
      if (folder === null) return next(specifier, context)
      const isRequired = [...(context.conditions ?? [])].includes('require')
      const at = (file) => next(isRequired ? file : pathToFileURL(file).href, context)
      for (const mapped of /^(?:\.{0,2}\/|[a-z]+:)/.test(specifier) ? [] : project.paths(specifier)) {
        const file = isFile(mapped) ? mapped : sourceOf(mapped)
        if (file !== null) return at(file)
      }
      try {
        return next(specifier, context)
      } catch (error) {
        const isPath = /^\.{0,2}(?:\/|$)/.test(specifier) && NOT_FOUND.includes(error.code)
        const file = isPath ? sourceOf(path.resolve(folder, specifier.replace(/[?#].*$/, ''))) : null
        if (file === null) throw withoutUs(error)
        return at(file)
      }
    },
    load(url, context, next) {
      if (folderOf(url) === null || !IS_TYPESCRIPT.test(new URL(url).pathname)) return next(url, context)
      const filename = fileURLToPath(url)
      const source = fs.readFileSync(filename, 'utf8')
      const format = moduleFormat(context.format, filename, source)
      const code = translated(source, filename, format, project)
      return code === null ? next(url, context) : { format, source: code, shortCircuit: true }
    },
  })
}

function isNeeded(entry, source, project) {
  for (const [, specifier] of source.matchAll(SPECIFIER)) {
    const file = path.resolve(specifier)
    if (/^\.{0,2}\//.test(specifier) ? isFile(file) || sourceOf(file) !== null : project.isThere) return true
  }
  return translated(source, entry, moduleFormat(undefined, entry, source), project) !== null
}

/** JavaScript with an inline source map; null if stripping is enough or the source is broken. */
function translated(source, filename, format, project) {
  if (filename.endsWith('.tsx') || hasDecorators(source)) return compiled(source, filename, format, project)
  const elides = !project.keepsImports && mayImportTypes(source)
  return elides || NOT_ERASABLE.test(source) ? transform(source, filename, elides) : null
}

// ---- Where modules are

/** The folder of one of the program's own files; null for packages and anything else. */
function folderOf(url) {
  if (url === undefined || !url.startsWith('file:') || url.includes('/node_modules/')) return null
  return path.dirname(fileURLToPath(url))
}

const isFile = (name) => fs.statSync(name, { throwIfNoEntry: false })?.isFile() === true

function sourceOf(name) {
  const ending = path.extname(name)
  const written = (SOURCES[ending] ?? []).map((other) => name.slice(0, -ending.length) + other)
  const candidates = [...written, ...ENDINGS.map((other) => name + other)]
  for (const other of ENDINGS) candidates.push(path.join(name, `index${other}`))
  return candidates.find(isFile) ?? null
}

/** The parts of tsconfig.json that affect a run. */
function readProject() {
  const none = { isThere: false, paths: () => [], keepsImports: false, options: {} }
  if (!isFile('tsconfig.json')) return none
  try {
    const { createPathsMatcher, getTsconfig } = ours('./get-tsconfig.cjs')
    const found = getTsconfig(process.cwd())
    const options = found?.config.compilerOptions ?? {}
    const match = found === null ? null : createPathsMatcher(found)
    return {
      isThere: true,
      paths: match ?? none.paths,
      keepsImports: options.verbatimModuleSyntax === true,
      options,
    }
  } catch {
    // tsc reports a broken tsconfig.json.
    return none
  }
}

/** Removes our frames between Node's, which a bare run does not have. */
function withoutUs(error) {
  if (typeof error.stack === 'string')
    error.stack = error.stack
      .split('\n')
      .filter((line) => !line.includes(__filename) && !line.includes('customization_hooks'))
      .join('\n')
  return error
}

// ---- What files become

/** Whether an import might be only a type; then amaro decides. */
function mayImportTypes(source) {
  const rest = source.replaceAll(IMPORT, '')
  for (const [, main, list = ''] of source.matchAll(IMPORT)) {
    const names = list
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '' && !item.startsWith('type '))
      .map((item) => item.split(/\s+as\s+/).at(-1))
    if (main !== undefined) names.push(main)
    for (const name of names) {
      const plain = name.replaceAll('$', '\\$')
      const isValue = new RegExp(
        `(?:\\bnew\\s+|\\binstanceof\\s+)${plain}\\b|(?<![:<|&.\\w$]\\s*)${plain}\\s*[.([\`]`,
      )
      if (!isValue.test(rest)) return true
    }
  }
  return false
}

function transform(source, filename, elides) {
  const { transformSync } = ours('./amaro.cjs')
  try {
    if (!elides) transformSync(source, { mode: 'strip-only', filename })
    if (!elides) return null
  } catch (error) {
    if (error.code !== 'UnsupportedSyntax') return null
  }
  try {
    const options = {
      mode: 'transform',
      sourceMap: true,
      filename,
      transform: { verbatimModuleSyntax: !elides },
    }
    const { code, map } = transformSync(source, options)
    process.setSourceMapsEnabled(true)
    return `${code}\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(map).toString('base64')}\n`
  } catch {
    return null
  }
}

function compiled(source, filename, format, { options }) {
  let ts
  try {
    ts = ours('./compiler.cjs')
  } catch {
    // Missing at vendors where each sandbox needs an upload.
    return null
  }
  const own = ts.convertCompilerOptionsFromJson(options, process.cwd()).options
  const { outputText } = ts.transpileModule(source, {
    fileName: filename,
    compilerOptions: {
      jsx: ts.JsxEmit.React,
      ...own,
      // V8 has no decorators, so they must not stay.
      target: Math.min(own.target ?? ts.ScriptTarget.ES2022, ts.ScriptTarget.ES2022),
      module: format === 'module' ? ts.ModuleKind.ESNext : ts.ModuleKind.CommonJS,
      importHelpers: false,
      sourceMap: false,
      inlineSourceMap: true,
    },
  })
  process.setSourceMapsEnabled(true)
  return outputText
}

/** Like Node: the file's ending, nearest package.json, or syntax. `known` is Node's first guess. */
function moduleFormat(known, filename, code) {
  if (filename.endsWith('.mts')) return 'module'
  if (filename.endsWith('.cts')) return 'commonjs'
  if (typeof known === 'string' && known.startsWith('module')) return 'module'
  const type = packageType(path.dirname(filename))
  if (type !== undefined) return type === 'module' ? 'module' : 'commonjs'
  return MODULE_SYNTAX.test(code) ? 'module' : 'commonjs'
}

function packageType(folder) {
  for (;;) {
    try {
      return JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8')).type
    } catch (error) {
      if (error instanceof SyntaxError || folder === path.dirname(folder)) return undefined
      folder = path.dirname(folder)
    }
  }
}

/** Loads one of our libraries, which does not appear among the program's modules. */
function ours(name) {
  const loaded = require(name)
  for (const filename of Object.keys(require.cache))
    if (filename.startsWith(__dirname)) {
      delete require.cache[filename]
      for (const key of Object.keys(pathCache)) if (pathCache[key] === filename) delete pathCache[key]
    }
  return loaded
}

/** A source for a session's interpreter. Its imports are not followed. */
function stripped(source, filename) {
  const code = translated(source, filename, 'commonjs', { keepsImports: true, options: {} })
  if (code !== null) return code
  try {
    // Node's own function does the same but prints an experimental warning.
    return ours('./amaro.cjs').transformSync(source, { mode: 'strip-only', filename }).code
  } catch {
    return require('node:module').stripTypeScriptTypes(source)
  }
}

module.exports = { install, stripped }
