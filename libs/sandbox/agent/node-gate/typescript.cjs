'use strict'
/**
 * TypeScript as its users write it, for the files of a program: modules named without their ending, or by
 * that of the JavaScript that tsc would make; `paths` of tsconfig.json; imports that are types only; and all
 * syntax that is more than types.
 *
 *   types alone                              Node's own stripping, as without us
 *   enum, namespace, types among imports …   amaro, which is that stripper with its transform mode
 *   decorators, .tsx                         the TypeScript compiler
 *
 * Loaded only for programs that need it (gate.cjs decides), and each library only by a file that needs it.
 */
const fs = require('node:fs')
const path = require('node:path')
const { registerHooks } = require('node:module')
const { fileURLToPath, pathToFileURL } = require('node:url')

const IS_TYPESCRIPT = /\.(?:[mc]?ts|tsx)$/
const NOT_ERASABLE =
  /\b(?:enum|namespace|module)\b|\(\s*(?:[^()]*,\s*)?(?:@[\w.]+(?:\([^()]*\))?\s*)*(?:public|private|protected|readonly|override)\s|\bimport\s+(?:type\s+)?[\w$]+\s*=|\bexport\s*=|\bexport\s+import\b|(?:[=(,?:;&|[!]|\breturn)\s*<(?:[A-Za-z_$][\w$.,\s[\]|&]*>\s*[\w$"'`{[]|(?:any|unknown|object|string|number|boolean)\b[^<>]*>\s*\()/
const COMMENTS = /\/\*[^]*?\*\/|\/\/.*/g
const DECORATOR = /(?:^|[\s(,{;])@[A-Za-z_$(]/m
/** Also true for an @ in a string, which only costs the time of the compiler. */
const hasDecorators = (source) => source.includes('@') && DECORATOR.test(source.replaceAll(COMMENTS, ''))
const SPECIFIER = /(?:\bfrom|\bimport|\brequire\s*\()\s*\(?\s*['"](?!node:)([^'"\n]+)['"]/g
const IMPORT = /\bimport\s+(?!type\s)(?:([\w$]+)\s*,?\s*)?(?:\{([^}]*)\})?\s*from\s*['"](?!node:)[^'"]*['"]/g

/**
 * What tsc takes for a name without an ending, in its order; and the sources of what it would have written.
 */
const ENDINGS = ['.ts', '.tsx', '.mts', '.cts', '.js', '.mjs', '.cjs', '.json']
const SOURCES = { '.js': ['.ts', '.tsx'], '.jsx': ['.tsx'], '.mjs': ['.mts'], '.cjs': ['.cts'] }
const NOT_FOUND = ['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND', 'ERR_UNSUPPORTED_DIR_IMPORT']

/**
 * Follows the imports of the program from now on, where that can change anything: Node shows hooks in the
 * frames of its errors.
 */
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

/**
 * JavaScript with an inline source map; null when Node's stripping is enough, or for source that is broken.
 */
function translated(source, filename, format, project) {
  if (filename.endsWith('.tsx') || hasDecorators(source)) return compiled(source, filename, format, project)
  const elides = !project.keepsImports && mayImportTypes(source)
  return elides || NOT_ERASABLE.test(source) ? transform(source, filename, elides) : null
}

// ---- Where modules are

/** The folder of one of the program's own files; null for packages, and for what is no file. */
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

/** Of tsconfig.json what bears on a run; without one nothing is loaded for it. */
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
    // A broken one is tsc's to complain about.
    return none
  }
}

/** Our frames stand between Node's and would not be there in a run without us. */
function withoutUs(error) {
  if (typeof error.stack === 'string')
    error.stack = error.stack
      .split('\n')
      .filter((line) => !line.includes(__filename) && !line.includes('customization_hooks'))
      .join('\n')
  return error
}

// ---- What files become

/** Whether a name is imported of which no use shows that it is a value; amaro then looks properly. */
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
    // Left out where each sandbox has to be sent its files.
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

/**
 * As Node decides: the file's ending, the nearest package.json, else the syntax. `known` is only Node's first
 * guess.
 */
function moduleFormat(known, filename, code) {
  if (filename.endsWith('.mts')) return 'module'
  if (filename.endsWith('.cts')) return 'commonjs'
  if (typeof known === 'string' && known.startsWith('module')) return 'module'
  const type = packageType(path.dirname(filename))
  if (type !== undefined) return type === 'module' ? 'module' : 'commonjs'
  return /^\s*(?:import\s*[\w{*"'$]|export\s*[\w{*@])/m.test(code) ||
    /^\s*(?:[\w$ ,=]+=\s*)?await\s/m.test(code)
    ? 'module'
    : 'commonjs'
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

/** A library of ours, which does not show among the program's modules. */
function ours(name) {
  const loaded = require(name)
  const { _pathCache: found } = require('node:module')
  for (const filename of Object.keys(require.cache))
    if (filename.startsWith(__dirname)) {
      delete require.cache[filename]
      for (const key of Object.keys(found)) if (found[key] === filename) delete found[key]
    }
  return loaded
}

/** One source for the interpreter that a session keeps, whose imports are not ours to follow. */
function stripped(source, filename) {
  const none = { keepsImports: true, options: {} }
  const code = translated(source, filename, 'commonjs', none)
  if (code !== null) return code
  try {
    // Node's own function is the same, but warns on stderr that it is experimental.
    return ours('./amaro.cjs').transformSync(source, { mode: 'strip-only', filename }).code
  } catch {
    return require('node:module').stripTypeScriptTypes(source)
  }
}

module.exports = { install, stripped }
