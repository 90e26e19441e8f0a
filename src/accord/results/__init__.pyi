from .documents import Charts as Charts, Document as Document, Ends as Ends, Findings as Findings, Fold as Fold
from .documents import Histogram as Histogram, Part as Part, Point as Point, Points as Points
from .documents import Section as Section, Table as Table, Text as Text
from .figures import By as By, DEFINITIONS as DEFINITIONS, Figure as Figure, Form as Form
from .figures import Ledger as Ledger, Over as Over, written as written
from .renderers import document_html as document_html
from .renderers import document_markdown as document_markdown, document_text as document_text
from .renderers import figure_html as figure_html, html_table as html_table, markdown_table as markdown_table
from .renderers import part_html as part_html, plain_markdown as plain_markdown, section_html as section_html
from .renderers import section_text as section_text, text_table as text_table, wrapped_table as wrapped_table
from .words import (
    agreement_word as agreement_word,
    agreement_words as agreement_words,
    counts as counts,
)
from .words import number as number, p_text as p_text, percent as percent, STRENGTHS as STRENGTHS
from .words import told_apart as told_apart
