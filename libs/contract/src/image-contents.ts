/**
 * What our two sandbox images have for programs. The slim one is quick to build and to start everywhere; the full one has
 * what people and models expect of a machine. infra/images builds both and tries each name; the docker backend tells them
 * in its probe; the executor names what a program looked for and did not find.
 */
export const IMAGE_SIZES = ['slim', 'full'] as const
export type ImageSize = (typeof IMAGE_SIZES)[number]

/** Python packages by the name under which programs import them. */
const SLIM_MODULES = { numpy: 'numpy', pandas: 'pandas', pytest: 'pytest' }

/** What only the full image has. */
export const ONLY_FULL = {
  commands: ['which', 'git', 'curl', 'jq', 'ps', 'zip', 'unzip', 'file', 'bc', 'make', 'perl'],
  modules: {
    PIL: 'pillow',
    bs4: 'beautifulsoup4',
    lxml: 'lxml',
    matplotlib: 'matplotlib',
    openpyxl: 'openpyxl',
    requests: 'requests',
    scipy: 'scipy',
    yaml: 'pyyaml',
  } as Readonly<Record<string, string>>,
} as const

/** Python modules of an image beside those of the standard library. */
export const imageModules = (size: ImageSize): string[] =>
  Object.keys(size === 'full' ? { ...SLIM_MODULES, ...ONLY_FULL.modules } : SLIM_MODULES).toSorted()

/** Commands of an image beyond bash, node, npm, python3 and what every POSIX shell takes for granted. */
export const imageCommands = (size: ImageSize): readonly string[] =>
  size === 'full' ? ONLY_FULL.commands : []

/** The tag of our own image that always names its newest build on a host. */
export const imageName = (size: ImageSize): string =>
  `cofferdam/sandbox:${size === 'full' ? 'full' : 'latest'}`
