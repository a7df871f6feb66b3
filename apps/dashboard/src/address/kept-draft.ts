/**
 * What was typed in the playground. The browser keeps it for this tab alone, until the tab is closed,
 * somebody signs out, or another key signs in. It is in no address, because addresses are shared and stay in
 * histories.
 */

export interface Draft {
  /** Choices, as in the address’s query. */
  choices: string
  /** Texts by the name of their field. */
  texts: Readonly<Record<string, string>>
}

const NAME = 'playground'

/** Keeps a draft for a key. False if the browser cannot store it. Then nothing is kept. */
export function keepDraft(keyId: string, draft: Draft): boolean {
  try {
    sessionStorage.setItem(NAME, JSON.stringify({ keyId, draft }))
    return true
  } catch {
    forgetDraft()
    return false
  }
}

/** The draft of this key. Null without one; that of another key is forgotten. */
export function keptDraft(keyId: string): Draft | null {
  try {
    const kept = JSON.parse(sessionStorage.getItem(NAME) ?? 'null') as { keyId: string; draft: Draft } | null
    if (kept?.keyId === keyId) return kept.draft
  } catch {
    // The browser forbids storage, or other code stored a text that is not JSON.
  }
  forgetDraft()
  return null
}

/** Deletes the stored draft. */
export function forgetDraft(): void {
  try {
    sessionStorage.removeItem(NAME)
  } catch {
    // Where storage is forbidden there is nothing to forget.
  }
}
