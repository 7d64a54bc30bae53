// Tags and annotations of a checkpoint, with forms to add them.

import { path, post } from "./api.js";
import { h, keepingFocus, named, prose } from "./dom.js";
import { announce, busy } from "./notices.js";
import { count, since, tagPill } from "./text.js";

/**
 * A form with one field.
 * @param {{id: string, label: string, hint: string, button: string, field: HTMLInputElement | HTMLTextAreaElement, add: (text: string) => Promise<void>}} parts
 */
function adding({ id, label, hint, button, field, add }) {
  const submit = h("button", { type: "submit" }, button);
  const onsubmit = (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) {
      field.focus();
      return;
    }
    void busy(submit, async () => {
      await add(text);
      // Keep what was typed meanwhile.
      if (field.value.trim() === text) field.value = "";
      field.focus();
    });
  };
  return h(
    "form",
    { class: "adding", onsubmit },
    h("label", { for: id }, label),
    h("div", { class: "adding-row" }, field, submit),
    h("span", { id: `${id}-hint`, class: "hint" }, hint),
  );
}

/** The tags and annotations of a checkpoint. */
export class Marks {
  /**
   * @param {string} id
   * @param {() => Promise<void>} refresh
   */
  constructor(id, refresh) {
    this.id = id;
    this.refresh = refresh;
    this.tags = h("div", {});
    this.annotations = h("div", {});
    this.element = h(
      "div",
      { class: "columns" },
      h("section", { "aria-labelledby": "tags-title" }, h("h2", { id: "tags-title" }, "Tags"), this.tags, this.tagForm()),
      h(
        "section",
        { "aria-labelledby": "annotations-title" },
        h("h2", { id: "annotations-title" }, "Annotations"),
        this.annotations,
        this.annotationForm(),
      ),
    );
  }

  tagForm() {
    const field = h("input", {
      id: "new-tags",
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      "aria-describedby": "new-tags-hint",
    });
    const add = async (text) => {
      const { added } = await post(path("v1", "checkpoints", this.id, "tags"), { tags: text.split(/\s+/) });
      await this.refresh();
      announce(added.length ? `${count(added.length, "tag")} added` : "It had these tags before");
    };
    return adding({
      id: "new-tags",
      label: "Add tags",
      hint: "Several with spaces between, such as release/1.2 reviewed.",
      button: "Add",
      field,
      add,
    });
  }

  annotationForm() {
    const field = h("textarea", { id: "new-annotation", rows: 2, "aria-describedby": "new-annotation-hint" });
    const add = async (text) => {
      await post(path("v1", "checkpoints", this.id, "annotations"), { text });
      await this.refresh();
      announce("The annotation was added");
    };
    return adding({
      id: "new-annotation",
      label: "Add an annotation",
      hint: "A remark for whoever looks at the checkpoint later.",
      button: "Add",
      field,
      add,
    });
  }

  /** @param {any} manifest */
  draw({ tags, annotations }) {
    const one = (annotation) =>
      h(
        "li",
        {},
        h("p", { class: "by" }, annotation.user ? named(annotation.user) : "a program", " · ", since(annotation.timestamp)),
        h("p", { class: "text" }, prose(annotation.text)),
      );
    keepingFocus(() => {
      this.tags.replaceChildren(
        tags.length
          ? h(
              "ul",
              { class: "tags" },
              tags.map((tag) => h("li", {}, tagPill(tag))),
            )
          : h("p", { class: "none" }, "None."),
      );
      this.annotations.replaceChildren(
        annotations.length ? h("ul", { class: "annotations" }, annotations.map(one)) : h("p", { class: "none" }, "None."),
      );
    });
  }
}
