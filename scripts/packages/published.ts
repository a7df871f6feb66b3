/** Which packages are published, and what is in them. */

export interface Published {
  name: string
  /** The workspace whose source files are the entries of the package. */
  dir: string
  /** Its README.md, below `dir`. Default: README.md. */
  readme?: string
  description: string
  /** Entry of the package → source file in `dir`. Empty for a package that nobody imports. */
  exports: Readonly<Record<string, string>>
  /**
   * The command's name, its file below the root (plain JavaScript), other files that it needs, and patterns
   * of the programs that it starts.
   */
  command?: { name: string; file: string; needs: readonly string[]; programs: readonly string[] }
  /** Libraries of TypeScript that its sources may use, in addition to the language itself. */
  lib: readonly string[]
  /** Packages with types of globals that its sources may use. */
  types: readonly string[]
  engines: Readonly<Record<string, string>>
  keywords: readonly string[]
}

/** What is read of a package.json. */
export interface Manifest {
  name: string
  version: string
  license: string
  exports?: Record<string, string>
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

export const PUBLISHED: readonly Published[] = [
  {
    name: '@cofferdam/client',
    dir: 'libs/client',
    description: 'The client of Cofferdam, which runs agent-written code in sandboxes. No dependencies.',
    exports: { '.': './src/index.ts' },
    // The features that Node 20, Deno, bundlers and browsers all have. Code that needs Node itself does not
    // compile.
    lib: ['es2023', 'dom', 'dom.iterable', 'esnext.disposable'],
    types: [],
    engines: { node: '>=20' },
    keywords: ['sandbox', 'agent', 'code-execution', 'queue'],
  },
  {
    name: '@cofferdam/queue-client',
    dir: 'libs/client',
    readme: 'QUEUE-CLIENT.md',
    description: 'The client of Cofferdam over Redis, for producers inside the network of a fleet.',
    exports: { '.': './src/queue.ts' },
    lib: ['esnext'],
    types: ['node'],
    engines: { node: '>=24' },
    keywords: ['sandbox', 'agent', 'code-execution', 'queue', 'redis'],
  },
  {
    name: '@cofferdam/tools',
    dir: 'libs/tools',
    description: 'A code tool and sandboxes for agents of any SDK, over the client. No other dependencies.',
    exports: {
      '.': './src/index.ts',
      './ai-sdk': './src/ai-sdk.ts',
      './ai-sdk-sandbox': './src/sandboxes/ai-sdk-sandbox.ts',
      './anthropic': './src/anthropic.ts',
      './claude-agent-sdk': './src/claude-agent-sdk.ts',
      './langchain': './src/langchain.ts',
      './mastra': './src/mastra.ts',
      './mastra-sandbox': './src/sandboxes/mastra-sandbox.ts',
      './openai-agents': './src/openai-agents.ts',
      './openai-agents-sandbox': './src/sandboxes/openai-agents-sandbox.ts',
    },
    lib: ['es2023', 'dom', 'dom.iterable', 'esnext.disposable'],
    types: [],
    // Node 20 has AbortSignal.any since 20.3.
    engines: { node: '>=20.3' },
    keywords: [
      'sandbox',
      'agent',
      'tool',
      'code-execution',
      'ai-sdk',
      'openai-agents',
      'langchain',
      'mastra',
    ],
  },
  {
    name: 'cofferdam',
    dir: 'apps/cli',
    description: 'The cofferdam command: a queue worker fleet that runs agent-written code in sandboxes.',
    exports: {},
    command: {
      name: 'cofferdam',
      file: 'apps/cli/bin/installed.mjs',
      needs: ['scripts/run-child.mjs', 'scripts/pinned-node.mjs'],
      programs: [
        'apps/cli/src/main.ts',
        'libs/backends/*/double/main.ts',
        'infra/doubles/*/{main,*-main}.ts',
      ],
    },
    lib: ['esnext'],
    types: ['node'],
    engines: { node: '>=20' },
    keywords: ['sandbox', 'agent', 'code-execution', 'queue', 'worker'],
  },
]

/** The package of that name. Throws when it is not published. */
export function publishedPackage(name: string): Published {
  const found = PUBLISHED.find((one) => one.name === name)
  if (found === undefined) throw new Error(`${name} is not published`)
  return found
}
