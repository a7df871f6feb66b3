/** Languages of programs, as the API knows them. */
export const LANGUAGES = ['python', 'javascript', 'typescript', 'bash'] as const
export type Language = (typeof LANGUAGES)[number]

const NAMES: Readonly<Record<Language, string>> = {
  python: 'Python',
  javascript: 'JavaScript (Node.js)',
  typescript: 'TypeScript',
  bash: 'bash',
}

/** `Python, TypeScript or bash` */
export function spokenList(languages: readonly Language[]): string {
  const names = languages.map((language) => NAMES[language])
  const last = names.pop() ?? ''
  return names.length === 0 ? last : `${names.join(', ')} or ${last}`
}
